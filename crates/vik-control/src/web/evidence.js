// The data of an attempt besides its transcript: the diff of the workspace, stderr, the prompt, scripts.

import { h } from "./dom.js";
import { chip, emptyState, errorNotice } from "./ui.js";
import { diffLines, excerpt } from "./text.js";
import { formatDuration, pluralize, relativeTime } from "./format.js";
import { prose } from "./prose.js";
import { truncate } from "./visible.js";

const MAX_OPEN_FILES = 12;
const MAX_OPEN_LINES = 400;

function fileView(file, index) {
  const lineCount = file.patch ? file.patch.split("\n", MAX_OPEN_LINES + 1).length : 0;
  return h(
    "details",
    { key: file.path, class: "file", open: index < MAX_OPEN_FILES && lineCount <= MAX_OPEN_LINES },
    h(
      "summary",
      {},
      h("bdi", { class: "mono path" }, truncate(file.path, 300)),
      h("span", { class: "grow" }),
      file.change === "modified" ? null : h("span", { class: "small dim" }, file.change),
      h("span", { class: "num add-text" }, `+${file.added}`),
      h("span", { class: "num del-text" }, `−${file.removed}`),
    ),
    file.patch === null ? h("p", { class: "dim small padded" }, "Binary or too large to show.") : diffLines(file.patch),
  );
}

/** Returns the view of a diff. `emptyText` explains a diff without files. */
export function diffView(diff, emptyText) {
  if (!diff) return h("p", { class: "dim" }, "Loading…");
  if (diff instanceof Error) return errorNotice(diff);
  const added = diff.files.reduce((sum, file) => sum + file.added, 0);
  const removed = diff.files.reduce((sum, file) => sum + file.removed, 0);
  return h(
    "div",
    { class: "diff-view" },
    diff.note ? h("p", { class: "notice tone-wait" }, prose(diff.note)) : null,
    diff.files.length || diff.note
      ? null
      : emptyState("No changes.", emptyText),
    diff.files.length
      ? h(
          "p",
          { class: "small dim" },
          pluralize(diff.files.length + diff.files_left_out, "file"),
          " changed, ",
          h("span", { class: "add-text" }, `+${added}`),
          " ",
          h("span", { class: "del-text" }, `−${removed}`),
          diff.base ? [" since ", h("code", { title: diff.base }, diff.base.slice(0, 10))] : null,
        )
      : null,
    diff.files.map(fileView),
    diff.files_left_out
      ? h("p", { class: "dim" }, `and ${pluralize(diff.files_left_out, "more file")} not shown`)
      : null,
  );
}

export function stderrView(stderr) {
  if (!stderr) return h("p", { class: "dim" }, "Loading…");
  if (stderr instanceof Error) return errorNotice(stderr);
  return stderr.text || stderr.left_out
    ? excerpt(stderr, "end", "Standard error of the agent")
    : emptyState("No output on stderr.", "");
}

export const promptView = (prompt) =>
  prompt
    ? excerpt(prompt, "start", "Prompt")
    : emptyState("No prompt.", "The attempt ended before its prompt was rendered, or has not rendered it yet.");

/** The scripts that run after the agent; all others run before it. */
const AFTER_AGENT = new Set(["verify", "after_run", "before_remove"]);

function stepView(script, index) {
  return h(
    "details",
    { key: `${script.name} ${index}`, class: "collapsible file", open: script.ok === false },
    h(
      "summary",
      {},
      h("span", { class: "strong mono" }, script.name),
      h("span", { class: "grow" }),
      duration(script.duration_ms),
      script.ok === null
        ? chip("waiting", "result unknown")
        : chip(script.ok ? "succeeded" : "failed", script.ok ? "ok" : "failed"),
    ),
    script.reason ? h("p", { class: "bad-text" }, prose(script.reason)) : null,
    script.output
      ? excerpt(script.output, "end", `Output of ${script.name}`)
      : h("p", { class: "dim small" }, "No output."),
  );
}

/** Returns the duration of a step, if the daemon has measured it. */
const duration = (ms) =>
  ms === null || ms === undefined ? null : h("span", { class: "small dim num" }, formatDuration(ms));

/** Returns the steps of an attempt in their order: the scripts, and the agent between them. */
export function stepsView(scripts, attempt) {
  const first = scripts.findIndex((script) => AFTER_AGENT.has(script.name));
  const split = first < 0 ? scripts.length : first;
  const agent = h(
    "div",
    { key: "agent", class: "file step" },
    h("span", { class: "strong mono" }, "agent"),
    h("span", { class: "grow" }),
    attempt.duration_ms === null ? relativeTime(attempt.started_at, "elapsed") : duration(attempt.duration_ms),
    chip(attempt.outcome ?? "running"),
  );
  return h(
    "div",
    { class: "steps" },
    scripts.slice(0, split).map(stepView),
    agent,
    scripts.slice(split).map((script, index) => stepView(script, split + index)),
  );
}
