// Long texts, code blocks and diffs.

import { h } from "./dom.js";
import { button } from "./ui.js";
import { formatBytes, pluralize } from "./format.js";

const MAX_DIFF_LINES = 1500;
const DIFF_PATTERN = /^(?:diff --git |@@ -\d|\*\*\* Begin Patch|--- \S[^\n]*\n\+\+\+ )/m;

export const isDiff = (text) => DIFF_PATTERN.test(text);

const lineClass = (line) => {
  if (line.startsWith("@@") || line.startsWith("diff --git") || line.startsWith("***")) return "hunk";
  if (line.startsWith("+++") || line.startsWith("---")) return "hunk";
  if (line[0] === "+") return "add";
  return line[0] === "-" ? "del" : "";
};

/** Returns a diff with coloured lines. The signs at the start of the lines have the same meaning. */
export function diffLines(text, showsAll = false) {
  const lines = text.replace(/\n$/, "").split("\n");
  const shown = showsAll ? lines : lines.slice(0, MAX_DIFF_LINES);
  // Adjacent lines of one colour share an element: a diff of 1,000 lines has about 100 elements.
  const runs = [];
  for (const line of shown) {
    const cls = lineClass(line);
    if (runs.length && runs.at(-1).cls === cls) runs.at(-1).lines.push(line);
    else runs.push({ cls, lines: [line] });
  }
  return h(
    "pre",
    { class: "mono diff", tabindex: 0 },
    runs.map((run) => h("span", { class: run.cls || null }, `${run.lines.join("\n")}\n`)),
    shown.length < lines.length
      ? h("span", { class: "hunk" }, `… ${pluralize(lines.length - shown.length, "more line")}`)
      : null,
  );
}

/** Returns the class for texts with very long tokens (minified code, base64), which browsers need minutes to wrap. */
const breakClass = (text) => (/\S{2000}/.test(text) ? " break-all" : "");

const HEAD_CHARS = 4000;
const TAIL_CHARS = 1500;

/** Returns the view of a text. Of a long text, the middle is hidden until `expanded` contains its `key`. */
export function collapsibleText(text, key, expanded, onChange, cls = "") {
  const isComplete = text.length <= HEAD_CHARS + TAIL_CHARS + 500 || expanded.has(key);
  const body = (part) =>
    isDiff(part) ? diffLines(part, expanded.has(key)) : h("pre", { class: `text ${cls}${breakClass(part)}` }, part);
  if (isComplete) return body(text);
  const showAll = () => {
    expanded.add(key);
    onChange();
  };
  return h(
    "div",
    {},
    body(text.slice(0, HEAD_CHARS)),
    h(
      "p",
      { class: "omitted" },
      `${formatBytes(text.length - HEAD_CHARS - TAIL_CHARS)} not shown `,
      button("Show all", showAll, { kind: "small" }),
    ),
    h("pre", { class: `text ${cls}` }, text.slice(-TAIL_CHARS)),
  );
}

/** Returns a text whose fenced code blocks are shown as code. Other Markdown syntax is not interpreted. */
export function fencedText(text, key, expanded, onChange) {
  if (!text.includes("```")) return collapsibleText(text, key, expanded, onChange);
  const blocks = [];
  text.split(/^(?:```|~~~)[^\n`]*(?:\n|$)/m).forEach((part, index) => {
    const trimmed = part.replace(/\n$/, "");
    const cls = index % 2 ? "mono code" : "";
    if (trimmed) blocks.push(collapsibleText(trimmed, `${key}/${index}`, expanded, onChange, cls));
  });
  return h("div", {}, blocks);
}

/** Returns the view of an `Excerpt`. `keptPart` is `start` (prompts) or `end` (output). */
export function excerpt({ text, left_out: omitted }, keptPart, label) {
  return h(
    "div",
    {},
    omitted && keptPart === "end" ? h("p", { class: "omitted" }, `${formatBytes(omitted)} omitted above`) : null,
    h(
      "pre",
      { class: `mono text boxed${breakClass(text)}`, tabindex: 0, role: "group", "aria-label": label },
      text || "(empty)",
    ),
    omitted && keptPart === "start" ? h("p", { class: "omitted" }, `${formatBytes(omitted)} omitted below`) : null,
  );
}
