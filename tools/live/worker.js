// Runs Python in a worker, so that the page stays alive. Everything is loaded from the folder of this file.
// @ts-expect-error: only build/live has that file
import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = new URL(".", import.meta.url);

async function begin() {
  const say = (/** @type {string} */ value) => postMessage({ kind: "state", value });
  say("loading Python");
  const python = await loadPyodide({ indexURL: new URL("pyodide/", here).href });
  const packages = python.runPython("import site; site.getsitepackages()[0]");
  for (const name of ["numpy", "needs", "acronumba"]) {
    say(`loading ${name === "needs" ? "what acronumba needs" : name}`);
    const got = await fetch(new URL(`${name}.zip`, here));
    if (!got.ok) throw new Error(`${name}.zip: ${got.status}`);
    python.unpackArchive(await got.arrayBuffer(), "zip", { extractDir: packages });
  }
  say("importing acronumba");
  const cells = python.pyimport("cells");
  cells.start();
  postMessage({ kind: "ready" });
  return cells;
}

const ready = begin();
ready.catch((error) => postMessage({ kind: "failed", value: String(error).slice(-2000) }));

self.onmessage = async ({ data: { id, code } }) => {
  const cells = await ready;
  const say = (/** @type {string} */ kind, /** @type {any} */ value) =>
    postMessage({ kind, id, value: value?.toJs ? value.toJs() : value });
  say("done", cells.run(code, say));
};
