// The text of an issue, and what its branch changes.

import { h } from "./dom.js";
import { button, section } from "./ui.js";
import { relativeTime } from "./format.js";
import { diffView } from "./evidence.js";
import { truncate } from "./visible.js";

/** A text with more lines or characters is folded. */
const MAX_LINES = 14;
const MAX_CHARS = 1200;

const isLong = (text) => text.length > MAX_CHARS || text.split("\n", MAX_LINES + 1).length > MAX_LINES;

/** Returns who created an issue and when, or `null` if neither is known. */
export const issueOrigin = ({ author, created_at: at }) =>
  author || at
    ? h(
        "span",
        { class: "dim" },
        "opened ",
        author ? ["by ", h("bdi", {}, truncate(author, 80)), " "] : null,
        at ? relativeTime(at) : null,
      )
    : null;

/** Returns the section with the text of an issue. `onToggle()` is called to show all of a long text, or less. */
export function descriptionSection(issue, isOpen, onToggle) {
  const text = issue?.description ?? "";
  const folds = isLong(text);
  return section(
    "Description",
    { id: "description", hint: issue ? issueOrigin(issue) : null },
    text.trim()
      ? h(
          "pre",
          {
            class: `issue-text wrap${folds && !isOpen ? " folded" : ""}`,
            id: "issue-text",
            tabindex: 0,
            role: "group",
            "aria-label": "Text of the issue",
          },
          text,
        )
      : h("p", { class: "dim" }, issue ? "The issue has no text." : "The text of the issue is not known."),
    folds
      ? button(isOpen ? "Show less" : "Show all", onToggle, {
          kind: "small",
          "aria-expanded": String(isOpen),
          "aria-controls": "issue-text",
        })
      : null,
    issue?.is_cut ? h("p", { class: "dim small" }, "The text is longer than 64 KiB. The tracker has all of it.") : null,
  );
}

const commitRow = (commit) =>
  h(
    "li",
    { key: commit.id },
    h("code", { title: commit.id }, commit.id.slice(0, 10)),
    h("span", { class: "wrap" }, truncate(commit.subject, 200)),
    h("span", { class: "small dim" }, h("bdi", {}, truncate(commit.author, 60)), " ", relativeTime(commit.at)),
  );

const commitList = ({ commits, commits_left_out: omitted }) =>
  commits?.length
    ? h(
        "div",
        {},
        h("ol", { class: "commits", "aria-label": "Commits, oldest first" }, commits.map(commitRow)),
        omitted ? h("p", { class: "dim small" }, `and ${omitted} more`) : null,
      )
    : null;

const branchLine = ({ branch, base, files }) =>
  branch
    ? h(
        "p",
        { class: "small" },
        "Branch ",
        h("code", {}, truncate(branch, 200)),
        // The diff names the commit too, if there is one.
        base && !files.length ? [h("span", { class: "dim" }, " since "), h("code", { title: base }, base.slice(0, 10))] : null,
      )
    : null;

/** Returns the section of the branch, its commits and its diff. `onOpen()` is called when a person opens it. */
export const changesSection = (diff, isOpen, onOpen) =>
  section(
    "Changes",
    { id: "changes" },
    h(
      "details",
      {
        class: "collapsible",
        open: isOpen,
        on: { toggle: (event) => event.target === event.currentTarget && onOpen(event.target.open) },
      },
      h("summary", {}, "Branch, commits and diff"),
      !isOpen
        ? null
        : diff && !(diff instanceof Error)
          ? h(
              "div",
              { class: "changes" },
              branchLine(diff),
              commitList(diff),
              diffView(diff, "The branch matches the commit that it started from."),
            )
          : diffView(diff),
    ),
  );
