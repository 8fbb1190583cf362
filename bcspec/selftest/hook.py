"""Run CPython's test runner with every function of the standard library and the tests transformed.

Run as ``python -m bcspec.selftest.hook FOLDER TRANSFORM JOBS TIMEOUT NAMES...``.  The process transforms
what all tests share, then forks one child per name, `JOBS` at a time.  Three ways lead a code
object through the transform.

* Modules loaded from now on: `SourceLoader.get_code` gives a transformed tree (the cached .pyc
  stays as it was).
* Functions that exist already, because the interpreter or bcspec itself needed their modules: they
  get a new ``__code__`` in place.
* Source that is compiled while running (doctests, the methods of dataclasses and named tuples, what
  a test module executes): the module's `compile`, `exec` and `eval` are replaced by ours.

What cannot be transformed stays as it was and is named in the report.  For each NAME the folder
gets `NAME.xml`, the results in JUnit's form, `NAME.log`, what the tests printed, and `NAME.json`,
the report: an object with `transformed`, a count, `shared`, how many of them all tests share, and
`refused`, a list of [function, file, line, error].  As each child ends, its name and exit status
are printed.
"""

from __future__ import annotations
import __future__

import builtins
import gc
import json
import os
import signal
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module, machinery
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NoReturn

import bytecode

from .transform import Transform, describe, transform_tree

_STDLIB = sysconfig.get_path("stdlib")
#: Not under test: what the transform itself runs on, and packages beside the library.
_EXCLUDED = (
    str(Path(__file__).resolve().parents[1]),
    str(Path(bytecode.__file__).resolve().parent),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    str(Path(_STDLIB) / "site-packages"),
)

#: Modules of the library that compile source while running.
_COMPILING = ("collections", "dataclasses", "doctest")

#: Loaded before the children are forked, so that each need not transform them again.
_SHARED = ("test.libregrtest.main", "unittest.mock", "asyncio")

#: Flags of a frame's code that source compiled in it inherits; the first one is no longer a future.
_INHERITED = 0
for _name in __future__.all_feature_names:
    if _name != "nested_scopes":
        _INHERITED |= getattr(__future__, _name).compiler_flag


class Hook:
    """The transform as installed in this process, and what came of it."""

    def __init__(self, transform: Transform) -> None:
        self.transform = transform
        self.transformed = 0
        #: How many of them were transformed before the children were forked.
        self.shared = 0
        self.refused: list[tuple[str, str, int, str]] = []

    def covers(self, filename: str) -> bool:
        """Whether code from `filename` is under test."""
        return filename.startswith(_STDLIB) and not filename.startswith(_EXCLUDED)

    def apply(self, code: CodeType) -> CodeType:
        """A transformed tree; what is refused is recorded and stays as it was."""
        return transform_tree(code, self._one, self._refuse)

    def _one(self, code: CodeType) -> CodeType:
        new = self.transform(code)
        self.transformed += 1
        return new

    def _refuse(self, code: CodeType, error: Exception) -> None:
        where = (code.co_qualname, code.co_filename, code.co_firstlineno)
        self.refused.append((*where, describe(error)))

    # -- the three ways -----------------------------------------------------------------

    def transform_loaded(self) -> None:
        """Give every function that exists already a transformed ``__code__``."""
        functions = [
            found
            for found in gc.get_objects()
            if type(found) is FunctionType and self.covers(found.__code__.co_filename)
        ]
        # All first, installed afterwards: the transform runs on some of these functions.
        codes: dict[int, CodeType] = {}
        for function in functions:
            code = function.__code__
            if id(code) not in codes:
                codes[id(code)] = self.apply(code)
        new_codes = [codes[id(function.__code__)] for function in functions]
        for function, code in zip(functions, new_codes, strict=True):
            function.__code__ = code

    def transform_loading(self) -> None:
        """Transform what source loaders load from now on."""
        loader: Any = machinery.SourceFileLoader
        get_code, exec_module = loader.get_code, loader.exec_module

        def transformed_code(this: Any, fullname: str) -> CodeType | None:
            code = get_code(this, fullname)
            if code is None or not self.covers(code.co_filename):
                return code
            return self.apply(code)

        def exec_with_compilers(this: Any, module: ModuleType) -> None:
            if module.__name__.startswith("test.test_") or module.__name__ in _COMPILING:
                vars(module).update(self.compilers())
            exec_module(this, module)

        loader.get_code = transformed_code
        loader.exec_module = exec_with_compilers

    def transform_compiling(self) -> None:
        """Transform what already loaded modules compile while running."""
        for name in _COMPILING:
            vars(import_module(name)).update(self.compilers())

    # -- compile, exec and eval ----------------------------------------------------------

    def compilers(self) -> dict[str, Callable[..., Any]]:
        """Replacements of `compile`, `exec` and `eval` for a module's globals."""
        return {"compile": self.compile, "exec": self.exec, "eval": self.eval}

    def compile(
        self,
        source: Any,
        filename: Any,
        mode: str,
        flags: int = 0,
        dont_inherit: bool = False,
        optimize: int = -1,
        **options: Any,
    ) -> Any:
        """`builtins.compile`, the result transformed when it is a code object."""
        if not dont_inherit:
            flags |= sys._getframe(1).f_code.co_flags & _INHERITED
        result = builtins.compile(source, filename, mode, flags, True, optimize, **options)
        return self.apply(result) if isinstance(result, CodeType) else result

    def exec(
        self,
        source: Any,
        /,
        globals: dict[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """`builtins.exec`, what it compiles transformed."""
        frame = sys._getframe(1)
        code = self._compiled(source, "exec", frame)
        builtins.exec(code, *_scope(frame, globals, locals), **options)

    def eval(
        self,
        source: Any,
        /,
        globals: dict[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
    ) -> Any:
        """`builtins.eval`, what it compiles transformed."""
        frame = sys._getframe(1)
        code = self._compiled(source, "eval", frame)
        return builtins.eval(code, *_scope(frame, globals, locals))

    def _compiled(self, source: Any, mode: str, frame: FrameType) -> Any:
        if not isinstance(source, str | bytes | bytearray | memoryview):
            return source
        text: Any = source
        if mode == "eval":  # which skips what precedes the expression
            text = source.lstrip(" \t") if isinstance(source, str) else bytes(source).lstrip(b" \t")
        flags = frame.f_code.co_flags & _INHERITED
        return self.apply(builtins.compile(text, "<string>", mode, flags, True))

    def report(self) -> dict[str, Any]:
        """What the report file holds."""
        return {
            "transformed": self.transformed,
            "shared": self.shared,
            "refused": self.refused,
        }


def _scope(
    frame: FrameType, globals: dict[str, Any] | None, locals: Mapping[str, Any] | None
) -> Iterator[Any]:
    """Globals and locals as `exec` and `eval`, called in `frame`, choose them."""
    yield frame.f_globals if globals is None else globals
    if locals is not None:
        yield locals
    elif globals is None:
        yield frame.f_locals


def load_transform(target: str) -> Transform:
    """The function that `module:function` names.

    Raises:
        ImportError: there is no such module.
        AttributeError: it has no such function.
    """
    module, _, function = target.partition(":")
    return getattr(import_module(module), function)


def _child(hook: Hook, folder: Path, name: str) -> NoReturn:
    """Run one test file in this (forked) process and end it."""
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        sys.argv[1:] = ["--junit-xml", str(folder / f"{name}.xml"), name]
        import_module("test.libregrtest.main").main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        (folder / f"{name}.json").write_text(json.dumps(hook.report()))
        sys.stdout.flush()
        sys.stderr.flush()
        # Not through the parent's clean-up, which is the parent's alone.
        os._exit(status)


def run_names(hook: Hook, folder: Path, names: list[str], jobs: int, timeout: float) -> None:
    """Run each test file in a forked child, `jobs` at a time, and print how each one ended."""
    waiting = names[::-1]
    running: dict[int, tuple[str, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop()
            child = os.fork()
            if child == 0:
                _child(hook, folder, name)
            running[child] = name, time.monotonic() + timeout
        child, status = os.waitpid(-1, os.WNOHANG)
        if child in running:
            print(running.pop(child)[0], os.waitstatus_to_exitcode(status), flush=True)
            continue
        for child, (_, end) in running.items():
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def main(arguments: list[str]) -> None:
    """Install the hook, transform what exists, and run the tests.

    Args:
        arguments: the folder for reports, the transform as `module:function`, how many children at
            a time, how many seconds each may take, and the names of the test files.
    """
    folder, target, jobs, timeout, *names = arguments
    hook = Hook(load_transform(target))
    hook.transform_compiling()
    hook.transform_loading()
    for module in _SHARED:
        import_module(module)
    hook.transform_loaded()
    hook.shared = hook.transformed
    run_names(hook, Path(folder), names, int(jobs), float(timeout))


if __name__ == "__main__":
    main(sys.argv[1:])
