// What the playground and the lessons share: Python in a worker, and what a cell shows.

/** @typedef {{kind: string, id?: number, value?: any}} Message */

/** Python, from the first run on. Stop ends the worker: an endless loop, too. */
export class Python {
  /** @param {(text: string) => void} state shows what Python does */
  constructor(state) {
    this.state = state;
    this.last = 0;
    /** @type {Worker | null} */
    this.worker = null;
    /** @type {Map<number, {heard: (message: Message) => void, done: (ok: boolean) => void}>} */
    this.waiting = new Map();
  }

  start() {
    if (this.worker) return this.worker;
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.worker.onerror = (event) => this.end(`Python cannot be loaded: ${event.message ?? "a file is missing"}`);
    this.worker.onmessage = ({ data }) => this.hear(data);
    return this.worker;
  }

  /** @param {Message} message */
  hear({ kind, id, value }) {
    if (kind === "state") this.state(`${value} …`);
    else if (kind === "ready") this.state("running …");
    else if (kind === "failed") this.end(`Python cannot be loaded: ${value}`);
    else if (kind === "done") {
      const one = this.waiting.get(id ?? 0);
      this.waiting.delete(id ?? 0);
      if (!this.waiting.size) this.state(value ? "done" : "an error");
      one?.done(value);
    } else this.waiting.get(id ?? 0)?.heard({ kind, value });
  }

  /** Run a cell. @param {string} code @param {(message: Message) => void} heard @returns {Promise<boolean>} */
  run(code, heard) {
    return new Promise((done) => {
      const id = ++this.last;
      this.waiting.set(id, { heard, done });
      if (this.worker) this.state("running …");
      this.start().postMessage({ id, code });
    });
  }

  /** End the worker; its names are lost. @param {string} text */
  end(text) {
    this.worker?.terminate();
    this.worker = null;
    const all = [...this.waiting.values()];
    this.waiting.clear();
    this.state(text);
    for (const one of all) one.done(false);
  }
}

/** Make an element. @param {string} tag @param {Record<string, any>} props @param {(Node | string)[]} inside */
export function make(tag, props = {}, ...inside) {
  const at = Object.assign(document.createElement(tag), props);
  at.append(...inside);
  return at;
}

/** Shows what a cell prints and shows, in `at`. */
export class Shown {
  /** @param {HTMLElement} at @param {Map<string, string>} pages the explorer's pages, by name */
  constructor(at, pages) {
    this.at = at;
    this.pages = pages;
    at.replaceChildren();
  }

  /** @param {Message} message */
  hear = ({ kind, value }) => {
    if (kind === "text") {
      let last = this.at.lastElementChild;
      if (last?.tagName !== "PRE") {
        last = make("pre", { tabIndex: 0 });
        this.at.append(last);
      }
      last.append(value);
    } else if (kind === "html") {
      const shown = make("div", { innerHTML: value });
      for (const link of shown.querySelectorAll("a")) {
        const [name, moment] = (link.getAttribute("href") ?? "").split("#");
        link.onclick = (event) => {
          if (!this.pages.has(name)) return;
          event.preventDefault();
          this.open(name, moment);
        };
      }
      this.at.append(shown);
    } else if (kind === "page") {
      this.pages.set(value[0], value[1]);
      this.at.append(make("p", {}, make("button", { type: "button", onclick: () => this.open(value[0]) }, `Explore ${value[0]}`)));
    }
  };

  /** Open a page of the explorer below. Its scripts cannot reach this page. @param {string} name @param {string} moment */
  open(name, moment = "") {
    this.at.querySelector("iframe")?.remove();
    const url = URL.createObjectURL(new Blob([this.pages.get(name) ?? ""], { type: "text/html" }));
    const frame = make("iframe", { src: `${url}#${moment}`, title: `explorer: ${name}`, className: "live-explorer" });
    frame.setAttribute("sandbox", "allow-scripts");
    this.at.append(frame);
  }
}

/** Let Tab indent, and Ctrl+Enter run; Escape, then Tab, leaves the field. @param {HTMLElement} area @param {() => void} run */
export function edit(area, run) {
  let leaves = false;
  area.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.shiftKey && !leaves) {
      event.preventDefault();
      document.execCommand("insertText", false, "    "); // so that it can be undone
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
    leaves = event.key === "Escape";
  });
}
