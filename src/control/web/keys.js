// Single keys. They can be turned off, since they are in the way of those who speak to their computer.

import { h, render } from "./dom.js";
import { button } from "./ui.js";

const HELP = [
  ["?", "show these keys"],
  ["b", "go to the board"],
  ["r", "go to the report"],
  ["/", "filter the issues, or go to an event"],
  ["j  k", "go to the next or previous row, card or event"],
  ["t", "switch between light and dark"],
  ["Home  End", "in a transcript: go to the first or newest event"],
  ["Page Up  Page Down", "in a transcript: scroll one screen up or down"],
];

let off = false;
try {
  off = localStorage.getItem("vik.keys") === "off";
} catch {
  // On, then.
}

const typing = (el) => el?.closest?.("input, textarea, select, [contenteditable]");

/** Puts the focus on the next (or the one before) of what is marked as an item. */
function step(by) {
  const items = [...document.querySelectorAll("[data-item]")].filter((el) => el.offsetParent !== null);
  const at = items.findIndex((el) => el === document.activeElement || el.contains(document.activeElement));
  const next = items[at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(Math.max(at + by, 0), items.length - 1)];
  next?.focus();
  next?.scrollIntoView?.({ block: "nearest" });
}

export const keys = {
  start(actions) {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (typing(event.target) || document.querySelector("dialog[open]")) return;
      if (event.key === "?") keys.help();
      else if (off) return;
      else if (event.key === "/") document.querySelector("[data-search]")?.focus();
      else if (event.key === "j") step(1);
      else if (event.key === "k") step(-1);
      else if (actions[event.key]) actions[event.key]();
      else return;
      event.preventDefault();
    });
  },

  help() {
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "keys-title");
    document.getElementById("dialogs").append(dialog);
    const turn = (event) => {
      off = !event.target.checked;
      try {
        localStorage.setItem("vik.keys", off ? "off" : "on");
      } catch {
        // Not kept, then.
      }
    };
    render(
      dialog,
      h("h2", { id: "keys-title" }, "Keys"),
      h(
        "dl",
        { class: "keys" },
        HELP.map(([key, what]) =>
          h(
            "div",
            { key },
            h(
              "dt",
              {},
              key.split("  ").map((one) => h("kbd", {}, one)),
            ),
            h("dd", {}, what),
          ),
        ),
      ),
      h(
        "label",
        { class: "row" },
        h("input", { type: "checkbox", checked: !off, on: { change: turn } }),
        " Single keys are on",
      ),
      h(
        "div",
        { class: "row end" },
        button("Close", () => dialog.close(), { kind: "primary" }),
      ),
    );
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  },
};
