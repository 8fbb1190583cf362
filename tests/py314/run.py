"""The Python side of `run.mjs`: the standard library as files, then what was asked for."""

from __future__ import annotations

import os
import runpy
import sys
import sysconfig
import traceback
import zipfile


def unpack_library() -> str:
    """Put the standard library, which comes as an archive, where `sysconfig` says it is.

    Returns:
        The folder for packages.
    """
    variables = sysconfig.get_config_vars()
    for name in ("base", "platbase", "installed_base", "installed_platbase"):
        variables[name] = variables[name].rstrip("/")  # else paths begin with two slashes
    archive = next(entry for entry in sys.path if entry.endswith(".zip"))
    library = sysconfig.get_path("stdlib")
    zipfile.ZipFile(archive).extractall(library)
    sys.path[sys.path.index(archive)] = library
    sys.path_importer_cache.clear()
    for module in list(sys.modules.values()):
        for name in ("__file__", "__cached__"):
            place = getattr(module, name, None)
            if isinstance(place, str) and place.startswith(archive):
                setattr(module, name, library + place.removeprefix(archive))
    return sysconfig.get_path("purelib")


def start(argv: list[str]) -> None:
    """Do what the command line says, as `python` does."""
    if argv[:1] == ["-m"]:
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[:1] == ["-c"]:
        sys.argv = ["-c", *argv[2:]]
        exec(compile(argv[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


def run(root: str, argv: list[str]) -> int:
    """Run a command line in a folder.

    Args:
        root: the checkout.
        argv: the arguments of `python`.

    Returns:
        The exit status.
    """
    os.chdir(root)
    sys.path.insert(0, root)
    status = 0
    try:
        start(argv)
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status
