// Runs Python arguments (`-m MODULE ...`, `-c CODE ...` or `FILE ...`) on the CPython that the
// package `pyodide` holds, with this checkout as the working directory.
//
//   node run.mjs -m pytest -q --ignore=tests/torch
//
// SITE_PACKAGES names a folder of pure-Python packages, which becomes the interpreter's
// site-packages.  Environment variables named PYTHON... and BCSPEC_... are passed on.
// PYODIDE_FOLDER names a `pyodide` package other than the one that package.json pins.

import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../..");
const folder = process.env.PYODIDE_FOLDER ?? path.join(here, "node_modules", "pyodide");
if (!existsSync(folder)) {
  console.error(`${folder} is missing: run "npm ci" in ${here}`);
  process.exit(2);
}
const { loadPyodide } = await import(pathToFileURL(path.join(path.resolve(folder), "pyodide.mjs")));

const passed = Object.entries(process.env).filter(([name]) => /^(PYTHON|BCSPEC_)/.test(name));
const python = await loadPyodide({ env: { HOME: "/home", ...Object.fromEntries(passed) } });
python.setStdin({ stdin: () => null });
const into = (stream) => ({ write: (bytes) => (stream.write(Buffer.from(bytes)), bytes.length) });
python.setStdout(into(process.stdout));
python.setStderr(into(process.stderr));

function mount(folder, place) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, place);
}

mount(root, root); // under the name it has outside
const runner = python.runPython(`
import runpy
runpy.run_path(${JSON.stringify(path.join(here, "run.py"))})
`);
const site = runner.get("unpack_library")();
if (process.env.SITE_PACKAGES) mount(path.resolve(process.env.SITE_PACKAGES), site);
process.exitCode = runner.get("run")(root, python.toPy(process.argv.slice(2)));
