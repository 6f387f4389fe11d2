// One column for each stage of the workflow, in its order, with the issues of the stage.

import { h } from "./dom.js";
import { button, chip, issueHeading, sessionHref } from "./ui.js";
import { humanize, relativeTime } from "./format.js";
import { codeWords, prose } from "./prose.js";
import { truncate } from "./visible.js";

const STATE_ORDER = { running: 0, ready: 1, waiting: 2, held: 3 };
const MAX_CARDS = 30;
const MAX_DONE = 20;

const cardTitle = (id, title) =>
  h("p", { class: "clamp2" }, issueHeading(id, title, { "data-item": true }));

function card({ issue, view }) {
  const hold = view.hold ?? (view.state === "running" || view.state === "ready" ? null : issue.hold);
  const names = { parked: "parked", taken_over: "taken over" };
  const label = (view.state === "held" && names[hold?.reason]) || view.state;
  return h(
    "li",
    { key: issue.issue_id, class: "card" },
    cardTitle(issue.issue_id, issue.issue_title),
    h(
      "div",
      { class: "line" },
      view.session_id && view.state === "running"
        ? h(
            "a",
            {
              class: "plain",
              href: sessionHref(view.session_id),
              "aria-label": `${label}, transcript of ${truncate(issue.issue_id, 60)}`,
            },
            chip(label),
          )
        : chip(label),
    ),
    issue.paused && hold?.reason !== "paused" ? h("p", { class: "small" }, chip("paused")) : null,
    hold
      ? h(
          "p",
          { class: "small dim clamp2", title: truncate(hold.detail ?? "", 400) },
          h("span", { class: "strong" }, codeWords(hold.reason)),
          hold.until ? [" · ", relativeTime(hold.until)] : null,
          hold.detail ? [" · ", prose(truncate(hold.detail, 140))] : null,
        )
      : null,
  );
}

/** Returns a column of the issues that have succeeded, with a link to their runs. */
export const doneColumn = (runs, historyHref) =>
  h(
    "div",
    { key: "#done", class: "column done", role: "group", "aria-label": "Done" },
    h("h3", {}, "Done", h("span", { class: "count num" }, runs.length)),
    h("p", { class: "small dim" }, "in the last 7 days"),
    runs.length
      ? h("ul", { class: "cards" }, runs.slice(0, MAX_DONE).map(doneCard))
      : h("p", { class: "small dim" }, "No issues."),
    h("a", { class: "btn", href: historyHref }, "All in History"),
  );

const doneCard = (run) =>
  h(
    "li",
    { key: run.issue_id, class: "card" },
    cardTitle(run.issue_id, run.issue_title),
    h(
      "div",
      { class: "line small dim" },
      h("bdi", {}, run.stage),
      h("span", { class: "grow" }),
      relativeTime(run.attempts.at(-1)?.ended_at),
    ),
  );

export function stageColumns(stages, issues, expanded, redraw, done) {
  const columns = new Map(stages.map((stage) => [stage.stage, []]));
  for (const issue of issues) for (const view of issue.stages) columns.get(view.stage)?.push({ issue, view });
  return h(
    "div",
    { class: "columns" },
    stages.map((stage) => {
      const cards = columns.get(stage.stage);
      cards.sort((a, b) => STATE_ORDER[a.view.state] - STATE_ORDER[b.view.state]);
      const shown = expanded.has(stage.stage) ? cards : cards.slice(0, MAX_CARDS);
      return h(
        "div",
        { key: stage.stage, class: "column", role: "group", "aria-label": `Stage ${stage.stage}` },
        h("h3", {}, h("bdi", {}, stage.stage), h("span", { class: "count num" }, cards.length)),
        h("p", { class: "small dim" }, "issues in ", h("bdi", {}, `“${stage.when_state}”`), " · ", stage.agent),
        cards.length
          ? h("ul", { class: "cards" }, shown.map(card))
          : h("p", { class: "small dim" }, "No issues."),
        shown.length < cards.length
          ? button(`Show ${cards.length - shown.length} more`, () => {
              expanded.add(stage.stage);
              redraw();
            })
          : null,
      );
    }),
    done,
  );
}

/**
 * Lists the other issues without a stage: in a state that no stage handles, or removed from the tracker. `done` has the
 * ids of those in the column of done issues.
 */
export function issuesWithoutStage(stages, issues, done) {
  const names = new Set(stages.map((stage) => stage.stage));
  const unassigned = issues.filter(
    (issue) => !done.has(issue.issue_id) && !issue.stages.some((view) => names.has(view.stage)),
  );
  if (!unassigned.length) return null;
  return h(
    "details",
    { class: "collapsible", key: "no-stage" },
    h("summary", {}, "Not in a stage", h("span", { class: "count num" }, unassigned.length)),
    h(
      "ul",
      { class: "rows" },
      unassigned
        .slice(0, 300)
        .map((issue) =>
          h(
            "li",
            { key: issue.issue_id, class: "list-row" },
            h(
              "div",
              { class: "line" },
              issueHeading(issue.issue_id, issue.issue_title),
              h(
                "span",
                { class: "small dim" },
                issue.issue_state ? `“${truncate(issue.issue_state, 60)}”` : "",
                issue.hold ? ` · ${humanize(issue.hold.reason)}` : "",
              ),
            ),
          ),
        ),
    ),
  );
}
