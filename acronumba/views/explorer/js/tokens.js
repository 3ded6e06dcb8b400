// @ts-check
// Colours of Python-like text. No DOM.

const KEYWORDS = "def return if elif else while for in not and or is None True False class import from match case break continue pass assert raise lambda";
const IR_WORDS = "kernel program shared site layout call load null branch jump emit check read spawn join extent copy list new tag fail pad";
const TOKEN = new RegExp(
  [
    "(# .*$)",
    "(\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*')",
    `\\b(${KEYWORDS.replaceAll(" ", "|")})\\b`,
    `\\b(${IR_WORDS.replaceAll(" ", "|")})\\b`,
    "(@\\w[\\w.]*)",
    "\\b(\\d[\\w.]*)",
  ].join("|"),
  "g",
);
const CLASSES = ["comment", "string", "keyword", "word", "decorator", "number"];

/** Cut a line of Python-like text into [text, class]. @param {string} line @returns {[string, string][]} */
export function tokens(line) {
  /** @type {[string, string][]} */
  const out = [];
  let at = 0;
  for (const found of line.matchAll(TOKEN)) {
    if (found.index > at) out.push([line.slice(at, found.index), ""]);
    out.push([found[0], CLASSES[found.slice(1).findIndex((x) => x !== undefined)]]);
    at = found.index + found[0].length;
  }
  if (at < line.length) out.push([line.slice(at), ""]);
  return out;
}
