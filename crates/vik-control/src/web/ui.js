// Components of several pages.

import { h, render } from "./dom.js";
import { encodeSegment } from "./api.js";
import { prose } from "./prose.js";
import { truncate } from "./visible.js";
import { estimateSuffix, formatUsd, humanize } from "./format.js";

/** The tone of each state. The label is always shown too. */
const TONES = {
  running: "run",
  preparing: "run",
  verifying: "run",
  finishing: "run",
  ready: "ready",
  succeeded: "good",
  ok: "good",
  waiting: "wait",
  handing_over: "wait",
  draining: "wait",
  mismatched_version: "bad",
  mismatched_workflow: "bad",
  stopping: "wait",
  stalled: "wait",
  asked: "wait",
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

/** Returns the chip of a state. `code` is its name in the API, if the label is another one. */
export const chip = (state, label = humanize(state), code = null) =>
  h(
    "span",
    { class: `chip tone-${TONES[state] ?? "off"}`, title: code },
    h("span", { class: "dot", "aria-hidden": "true" }),
    label,
  );

export const issueHref = (id) => `/issues/${encodeSegment(id)}`;
export const sessionHref = (id) => `/sessions/${encodeSegment(id)}`;

/** Returns the id of an issue as text: a number as `#7`. */
export const issueName = (id, maxLength = 80) => (/^\d+$/.test(id) ? `#${id}` : truncate(String(id), maxLength));

export const issueLink = (id, props = {}) =>
  h("a", { class: "id", href: issueHref(id), ...props }, h("bdi", {}, issueName(id)));

/** Returns a link to an issue: its title, then its id. An issue without a known title has only its id. */
export const issueHeading = (id, title, props = {}) => [
  title ? h("a", { class: "heading", href: issueHref(id), ...props }, issueTitle(title, 160)) : null,
  title ? " " : null,
  title ? h("bdi", { class: "id dim" }, issueName(id)) : issueLink(id, props),
];

export const shortId = (id) =>
  String(id ?? "")
    .split("-")
    .pop()
    .slice(-8);

export const sessionLink = (id, label = `session ${shortId(id)}`) =>
  h("a", { class: "num", href: sessionHref(id), title: id }, label);

/** Returns the title of an issue, truncated to `maxLength` characters. */
export const issueTitle = (text, maxLength = 240) =>
  h("bdi", { class: "title" }, truncate(text || "(no title)", maxLength));

export function button(label, onClick, { kind = "", ...props } = {}) {
  return h("button", { type: "button", class: `btn ${kind}`, on: { click: onClick }, ...props }, label);
}

/** Returns a value with a meter of its limit, if there is one. `hidesLabel`: the name is already shown elsewhere. */
export function meter(name, value, limit, format, hidesLabel = false) {
  const label = hidesLabel ? null : h("span", { class: "dim" }, ` ${name}`);
  if (limit === null || limit === undefined) {
    return h("span", { class: "figure" }, h("span", {}, h("span", { class: "num" }, format(value)), label));
  }
  const share = limit > 0 ? value / limit : 1;
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "wait" : "run";
  const text = `${format(value)} of ${format(limit)}`;
  return h(
    "span",
    { class: "figure" },
    h("span", {}, h("span", { class: "num" }, text), label),
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

/** Returns the meter of the cost of a session: the charged amount, or the reported one if that is higher. */
export function costMeter({ charged, budget, cost_usd: cost }, hidesLabel = false) {
  const estimated = charged?.estimated_usd ?? 0;
  const value = Math.max(charged?.cost_usd ?? 0, cost ?? 0);
  return [
    meter(`cost${estimateSuffix(estimated)}`, value, budget?.usd, formatUsd, hidesLabel),
    hidesLabel && estimated >= 5e-7 ? h("span", { class: "small dim" }, estimateSuffix(estimated)) : null,
  ];
}

export const propertyList = (...entries) =>
  h(
    "dl",
    { class: "properties" },
    entries.filter(Boolean).map(([name, ...value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))),
  );

export const emptyState = (title, ...description) =>
  h("div", { class: "empty" }, h("p", { class: "strong" }, title), h("p", {}, description));

export const errorNotice = (error, retry) =>
  h(
    "div",
    { class: "notice tone-bad", role: "alert" },
    h("p", { class: "strong" }, prose(error.message)),
    error.hint ? h("p", {}, prose(error.hint)) : null,
    retry ? button("Try again", retry) : null,
  );

export function section(title, { id, count, tools, key, hint } = {}, ...children) {
  const sectionId = id ?? title.toLowerCase().replaceAll(/[^a-z]+/g, "-");
  return h(
    "section",
    { key: key ?? sectionId, id: sectionId, "aria-labelledby": `${sectionId}-h` },
    h(
      "div",
      { class: "section-head" },
      h(
        "h2",
        { id: `${sectionId}-h`, tabindex: -1 },
        title,
        count === undefined ? null : h("span", { class: "count num" }, count),
      ),
      hint ? h("span", { class: "dim small" }, hint) : null,
      tools ?? null,
    ),
    children,
  );
}

/** Returns a table whose first column has the row headers. It scrolls horizontally on narrow screens. */
export function table(caption, columns, rows, key) {
  return h(
    "div",
    { class: "scroll-x", tabindex: 0, role: "group", "aria-label": caption, key },
    h(
      "table",
      {},
      h("caption", { class: "visually-hidden" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column, index) => h("th", { scope: "col", class: index ? "right" : "" }, column)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row, index) =>
          h(
            "tr",
            { key: index },
            row.map((cell, column) =>
              column ? h("td", { class: "right num" }, cell) : h("th", { scope: "row" }, cell),
            ),
          ),
        ),
      ),
    ),
  );
}

let toasts = [];
let lastToastId = 0;

/** Shows a message for a few seconds. Errors stay until the user dismisses them. */
export function showToast(text, tone = "good") {
  const toast = { id: ++lastToastId, text, tone };
  toasts = [...toasts.slice(-3), toast];
  renderToasts();
  if (tone !== "bad") setTimeout(() => dismissToast(toast.id), 7000);
}

function dismissToast(id) {
  toasts = toasts.filter((toast) => toast.id !== id);
  renderToasts();
}

function renderToasts() {
  render(
    document.getElementById("toasts"),
    toasts.map((toast) =>
      h(
        "div",
        { key: toast.id, class: `toast tone-${toast.tone}` },
        h("span", {}, prose(toast.text)),
        button("✕", () => dismissToast(toast.id), { kind: "quiet", "aria-label": "Dismiss this message" }),
      ),
    ),
  );
}

/**
 * Asks in a modal dialog and resolves to whether the user confirmed. With `messageLabel`, the dialog has a text field
 * and resolves to its text, or to `null` if the user did not confirm.
 */
export function confirmDialog({ title, text, confirmLabel, danger = false, messageLabel = null }) {
  return new Promise((resolve) => {
    const field = messageLabel === null ? null : document.createElement("textarea");
    if (field) {
      field.rows = 4;
      field.maxLength = 4000;
      field.setAttribute("aria-label", messageLabel);
      field.placeholder = messageLabel;
    }
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "dialog-title");
    document.getElementById("dialogs").append(dialog);
    render(
      dialog,
      h("h2", { id: "dialog-title" }, title),
      h("p", { class: "wrap" }, prose(text)),
      h(
        "div",
        { class: "row align-end" },
        button("Back", () => dialog.close("cancel")),
        button(confirmLabel, () => dialog.close("confirm"), { kind: danger ? "danger" : "primary" }),
      ),
    );
    if (field) dialog.lastElementChild.before(field);
    dialog.addEventListener("close", () => {
      const isConfirmed = dialog.returnValue === "confirm";
      resolve(field ? (isConfirmed ? field.value.trim() : null) : isConfirmed);
      dialog.remove();
    });
    dialog.showModal();
  });
}
