// Long texts: what is shown of them, and diffs inside of them.

import { h } from "./dom.js";
import { button } from "./ui.js";
import { bytes, many } from "./format.js";

const LINES = 1500;
const DIFF = /^(?:diff --git |@@ -\d|\*\*\* Begin Patch|--- \S[^\n]*\n\+\+\+ )/m;

export const looksLikeDiff = (text) => DIFF.test(text);

const tone = (line) => {
  if (line.startsWith("@@") || line.startsWith("diff --git") || line.startsWith("***")) return "hunk";
  if (line.startsWith("+++") || line.startsWith("---")) return "hunk";
  if (line[0] === "+") return "add";
  return line[0] === "-" ? "del" : "";
};

/** A diff with its lines coloured; the signs in front say the same. */
export function diffLines(text, all = false) {
  const lines = text.replace(/\n$/, "").split("\n");
  const shown = all ? lines : lines.slice(0, LINES);
  // Lines of one colour stand together in one element: a diff of 1,000 lines has some 100 of them.
  const runs = [];
  for (const line of shown) {
    const cls = tone(line);
    if (runs.length && runs.at(-1).cls === cls) runs.at(-1).lines.push(line);
    else runs.push({ cls, lines: [line] });
  }
  return h(
    "pre",
    { class: "mono diff", tabindex: 0 },
    runs.map((run) => h("span", { class: run.cls || null }, `${run.lines.join("\n")}\n`)),
    shown.length < lines.length
      ? h("span", { class: "hunk" }, `… ${many(lines.length - shown.length, "more line")}`)
      : null,
  );
}

/** A word of very many characters (minified code, base64): browsers need minutes to wrap one at its best places. */
const packed = (text) => (/\S{2000}/.test(text) ? " packed" : "");

const HEAD = 4000;
const TAIL = 1500;

/**
 * A text; of a long one the start and the end, until `open` has its `key`. `wrap` names the element it stands in.
 */
export function long(text, key, open, changed, cls = "") {
  const whole = text.length <= HEAD + TAIL + 500 || open.has(key);
  const body = (part) =>
    looksLikeDiff(part) ? diffLines(part, open.has(key)) : h("pre", { class: `text ${cls}${packed(part)}` }, part);
  if (whole) return body(text);
  const press = () => {
    open.add(key);
    changed();
  };
  return h(
    "div",
    {},
    body(text.slice(0, HEAD)),
    h(
      "p",
      { class: "left-out" },
      `${bytes(text.length - HEAD - TAIL)} not shown `,
      button("Show all", press, { kind: "small" }),
    ),
    h("pre", { class: `text ${cls}` }, text.slice(-TAIL)),
  );
}

/** Text with Markdown's fences: what is between them is code. Nothing else of Markdown is read. */
export function fenced(text, key, open, changed) {
  if (!text.includes("```")) return long(text, key, open, changed);
  const found = [];
  text.split(/^(?:```|~~~)[^\n`]*(?:\n|$)/m).forEach((part, at) => {
    const trimmed = part.replace(/\n$/, "");
    if (trimmed) found.push(long(trimmed, `${key}/${at}`, open, changed, at % 2 ? "mono code" : ""));
  });
  return h("div", {}, found);
}

/** An `Excerpt`: of a prompt the start is kept, of what is printed the end. */
export function excerpt({ text, left_out: left }, where, label) {
  return h(
    "div",
    {},
    left && where === "end" ? h("p", { class: "left-out" }, `${bytes(left)} before this omitted`) : null,
    h(
      "pre",
      { class: `mono text boxed${packed(text)}`, tabindex: 0, role: "group", "aria-label": label },
      text || "(nothing)",
    ),
    left && where === "start" ? h("p", { class: "left-out" }, `${bytes(left)} after this omitted`) : null,
  );
}
