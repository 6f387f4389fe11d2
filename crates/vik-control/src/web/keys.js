// Single-key shortcuts. Users can disable them, because speech input can trigger them by accident (WCAG 2.1.4).

import { h, render } from "./dom.js";
import { button } from "./ui.js";

const HELP = [
  ["?", "show this help"],
  ["b", "go to the board"],
  ["h", "go to the history"],
  ["r", "go to the report"],
  ["w  l  p", "go to the workflow, the log or the pulls of the daemon"],
  ["/", "filter the issues, runs or the log, or search the transcript"],
  ["j  k", "go to the next or previous row, card or event"],
  ["t", "switch between light and dark"],
  ["Enter  Shift+Enter", "in the search of a transcript: go to the next or previous match"],
  ["Home  End", "in a transcript: go to the first or newest event"],
  ["Page Up  Page Down", "in a transcript: scroll one screen up or down"],
];

let isDisabled = false;
try {
  isDisabled = localStorage.getItem("vik.keys") === "off";
} catch {
  // Without storage, shortcuts are enabled.
}

const isTextInput = (el) => el?.closest?.("input, textarea, select, [contenteditable]");

/** Moves the focus by `offset` among the visible elements with `data-item`. */
function moveFocus(offset) {
  const items = [...document.querySelectorAll("[data-item]")].filter((el) => el.offsetParent !== null);
  const index = items.findIndex((el) => el === document.activeElement || el.contains(document.activeElement));
  const last = items.length - 1;
  const next = items[index < 0 ? (offset > 0 ? 0 : last) : Math.min(Math.max(index + offset, 0), last)];
  next?.focus();
  next?.scrollIntoView?.({ block: "nearest" });
}

export const keys = {
  start(actions) {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTextInput(event.target) || document.querySelector("dialog[open]")) return;
      if (event.key === "?") keys.showHelp();
      else if (isDisabled) return;
      else if (event.key === "/") document.querySelector("[data-search]")?.focus();
      else if (event.key === "j") moveFocus(1);
      else if (event.key === "k") moveFocus(-1);
      else if (actions[event.key]) actions[event.key]();
      else return;
      event.preventDefault();
    });
  },

  showHelp() {
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "keys-title");
    document.getElementById("dialogs").append(dialog);
    const onToggle = (event) => {
      isDisabled = !event.target.checked;
      try {
        localStorage.setItem("vik.keys", isDisabled ? "off" : "on");
      } catch {
        // The setting then applies to this page only.
      }
    };
    render(
      dialog,
      h("h2", { id: "keys-title" }, "Keyboard shortcuts"),
      h(
        "dl",
        { class: "keys" },
        HELP.map(([key, description]) =>
          h(
            "div",
            { key },
            h(
              "dt",
              {},
              key.split("  ").map((keyName) => h("kbd", {}, keyName)),
            ),
            h("dd", {}, description),
          ),
        ),
      ),
      h(
        "label",
        { class: "row" },
        h("input", { type: "checkbox", checked: !isDisabled, on: { change: onToggle } }),
        " Enable single-key shortcuts",
      ),
      h(
        "div",
        { class: "row align-end" },
        button("Close", () => dialog.close(), { kind: "primary" }),
      ),
    );
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  },
};
