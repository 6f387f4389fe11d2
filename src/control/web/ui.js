// Small parts that several pages use.

import { h, render } from "./dom.js";
import { part } from "./api.js";
import { cut } from "./visible.js";
import { words } from "./format.js";

/** How a state looks; the word is always there too. */
const TONES = {
  running: "run",
  preparing: "run",
  verifying: "run",
  finishing: "run",
  ready: "ready",
  succeeded: "good",
  ok: "good",
  waiting: "wait",
  draining: "wait",
  stopping: "wait",
  stalled: "wait",
  timed_out: "bad",
  over_budget: "bad",
  held: "bad",
  parked: "bad",
  failed: "bad",
  lost: "bad",
  dead: "bad",
  not_running: "bad",
  paused: "off",
  cancelled: "off",
  ended: "off",
};

export const chip = (state, label = words(state)) =>
  h("span", { class: `chip tone-${TONES[state] ?? "off"}` }, h("span", { class: "dot", "aria-hidden": "true" }), label);

export const issueHref = (id) => `/issues/${part(id)}`;
export const sessionHref = (id) => `/sessions/${part(id)}`;

export const issueLink = (id, props = {}) =>
  h("a", { class: "id", href: issueHref(id), ...props }, h("bdi", {}, cut(String(id), 80)));

export const shortId = (id) =>
  String(id ?? "")
    .split("-")
    .pop()
    .slice(-8);

export const sessionLink = (id, label = `session ${shortId(id)}`) =>
  h("a", { class: "num", href: sessionHref(id), title: id }, label);

/** A title of an issue; it may be as long as it likes. */
export const issueTitle = (text, most = 240) => h("bdi", { class: "title" }, cut(text || "(no title)", most));

export function button(label, press, { kind = "", ...props } = {}) {
  return h("button", { type: "button", class: `btn ${kind}`, on: { click: press }, ...props }, label);
}

/** How much of a limit is used. Without a limit it is the figure alone; `bare`: the name stands elsewhere already. */
export function meter(name, value, limit, show, bare = false) {
  const named = bare ? null : h("span", { class: "dim" }, ` ${name}`);
  if (limit === null || limit === undefined) {
    return h("span", { class: "figure" }, h("span", {}, h("span", { class: "num" }, show(value)), named));
  }
  const share = limit > 0 ? value / limit : 1;
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "wait" : "run";
  const text = `${show(value)} of ${show(limit)}`;
  return h(
    "span",
    { class: "figure" },
    h("span", {}, h("span", { class: "num" }, text), named),
    h("span", {
      class: `meter tone-${tone}`,
      role: "meter",
      "aria-label": name,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-valuenow": Math.round(Math.min(share, 1) * 100),
      "aria-valuetext": text,
      vars: { "--share": `${Math.min(share, 1) * 100}%` },
    }),
  );
}

/** A list of facts. */
export const facts = (...pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, ...value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))),
  );

export const empty = (title, ...what) =>
  h("div", { class: "empty" }, h("p", { class: "strong" }, title), h("p", {}, what));

export const failure = (problem, retry) =>
  h(
    "div",
    { class: "notice tone-bad", role: "alert" },
    h("p", { class: "strong" }, problem.message),
    problem.hint ? h("p", {}, problem.hint) : null,
    retry ? button("Try again", retry) : null,
  );

export function section(title, { id, count, tools, key, hint } = {}, ...kids) {
  const heading = id ?? title.toLowerCase().replaceAll(/[^a-z]+/g, "-");
  return h(
    "section",
    { key: key ?? heading, id: heading, "aria-labelledby": `${heading}-h` },
    h(
      "div",
      { class: "section-head" },
      h(
        "h2",
        { id: `${heading}-h`, tabindex: -1 },
        title,
        count === undefined ? null : h("span", { class: "count num" }, count),
      ),
      hint ? h("span", { class: "dim small" }, hint) : null,
      tools ?? null,
    ),
    kids,
  );
}

/** A table; the first cell of each row heads it. It scrolls by itself where the screen is narrow. */
export function table(caption, heads, rows, key) {
  return h(
    "div",
    { class: "scroll-x", tabindex: 0, role: "group", "aria-label": caption, key },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head, at) => h("th", { scope: "col", class: at ? "right" : "" }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row, at) =>
          h(
            "tr",
            { key: at },
            row.map((cell, col) => (col ? h("td", { class: "right num" }, cell) : h("th", { scope: "row" }, cell))),
          ),
        ),
      ),
    ),
  );
}

let notes = [];
let noteId = 0;

/** Says what came of an action, for a while; errors stay until they are put away. */
export function say(text, tone = "good") {
  const note = { id: ++noteId, text, tone };
  notes = [...notes.slice(-3), note];
  drawNotes();
  if (tone !== "bad") setTimeout(() => hush(note.id), 7000);
}

function hush(id) {
  notes = notes.filter((note) => note.id !== id);
  drawNotes();
}

function drawNotes() {
  render(
    document.getElementById("toasts"),
    notes.map((note) =>
      h(
        "div",
        { key: note.id, class: `toast tone-${note.tone}` },
        h("span", {}, note.text),
        button("✕", () => hush(note.id), { kind: "quiet", "aria-label": "Dismiss this message" }),
      ),
    ),
  );
}

/** Asks in a modal dialog; the promise is whether the answer was yes. */
/** Asks; gives whether it was said yes to. With `message`, gives the text instead (`null`: no). */
export function confirm({ title, text, yes, no = "Back", danger = false, message = null }) {
  return new Promise((resolve) => {
    const field = message === null ? null : document.createElement("textarea");
    if (field) {
      field.rows = 4;
      field.maxLength = 4000;
      field.setAttribute("aria-label", message);
      field.placeholder = message;
    }
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "dialog-title");
    document.getElementById("dialogs").append(dialog);
    render(
      dialog,
      h("h2", { id: "dialog-title" }, title),
      h("p", {}, text),
      h(
        "div",
        { class: "row end" },
        button(no, () => dialog.close("no")),
        button(yes, () => dialog.close("yes"), { kind: danger ? "danger" : "primary" }),
      ),
    );
    if (field) dialog.lastElementChild.before(field);
    dialog.addEventListener("close", () => {
      const sure = dialog.returnValue === "yes";
      resolve(field ? (sure ? field.value.trim() : null) : sure);
      dialog.remove();
    });
    dialog.showModal();
  });
}
