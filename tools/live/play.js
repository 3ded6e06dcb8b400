// The playground: an editor with line numbers, examples, Run and Stop, and the code in the address.
import { edit, make, Python, Shown } from "./live.js";

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);
const python = new Python((text) => {
  $("state").textContent = text;
});
const pages = new Map();

/** Number the lines; mark the one that fails. */
function number(marked = 0) {
  const count = $("code").value.split("\n").length;
  const lines = Array.from({ length: count }, (_, k) => make("span", { className: k + 1 === marked ? "wrong" : "" }, `${k + 1}\n`));
  $("numbers").replaceChildren(...lines);
  $("numbers").scrollTop = $("code").scrollTop;
}

async function run() {
  if ($("run").disabled) return;
  $("run").disabled = true;
  $("stop").disabled = false;
  number();
  history.replaceState(null, "", `#code=${encodeURIComponent($("code").value)}`);
  const shown = new Shown($("out"), pages);
  let line = 0, page = "";
  await python.run($("code").value, (message) => {
    if (message.kind === "line") line = message.value;
    if (message.kind === "page") page = message.value[0];
    shown.hear(message);
  });
  number(line);
  if (line) $("state").textContent += `, in line ${line}`;
  if (page) shown.open(page);
  $("run").disabled = false;
  $("stop").disabled = true;
}

/** @param {string} code */
function put(code) {
  $("code").value = code;
  number();
}

$("run").onclick = run;
$("stop").onclick = () => python.end("stopped; the next run begins with no names");
$("code").oninput = () => number();
$("code").onscroll = () => {
  $("numbers").scrollTop = $("code").scrollTop;
};
edit($("code"), run);
const examples = await (await fetch(new URL("examples.json", import.meta.url))).json();
$("examples").append(...Object.keys(examples).map((name) => make("option", {}, name)));
$("examples").onchange = () => put(examples[$("examples").value]);
put(location.hash.startsWith("#code=") ? decodeURIComponent(location.hash.slice(6)) : Object.values(examples)[0]);
document.documentElement.dataset.ready = "true";
