// One column for each stage of the workflow, in its order, with the issues of the stage.

import { h } from "./dom.js";
import { button, chip, issueLink, issueTitle, sessionHref } from "./ui.js";
import { humanize, relativeTime } from "./format.js";
import { truncate } from "./visible.js";

const STATE_ORDER = { running: 0, ready: 1, waiting: 2, held: 3 };
const MAX_CARDS = 30;

function card({ issue, view }) {
  const hold = view.hold ?? (view.state === "running" || view.state === "ready" ? null : issue.hold);
  const label = view.state === "held" && hold?.reason === "parked" ? "parked" : view.state;
  return h(
    "li",
    { key: issue.issue_id, class: "card" },
    h(
      "div",
      { class: "line" },
      issueLink(issue.issue_id, { "data-item": true }),
      h("span", { class: "grow" }),
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
    h("p", { class: "clamp2" }, issueTitle(issue.issue_title, 160)),
    issue.paused && hold?.reason !== "paused" ? h("p", { class: "small" }, chip("paused")) : null,
    hold
      ? h(
          "p",
          { class: "small dim clamp2", title: truncate(hold.detail ?? "", 400) },
          h("span", { class: "strong" }, humanize(hold.reason)),
          hold.until ? [" · ", relativeTime(hold.until)] : null,
          hold.detail ? ` · ${truncate(hold.detail, 140)}` : "",
        )
      : null,
  );
}

export function stageColumns(stages, issues, expanded, redraw) {
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
  );
}

/** Lists the issues without a stage: finished, in a state that no stage handles, or removed from the tracker. */
export function issuesWithoutStage(stages, issues) {
  const names = new Set(stages.map((stage) => stage.stage));
  const unassigned = issues.filter((issue) => !issue.stages.some((view) => names.has(view.stage)));
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
              issueLink(issue.issue_id),
              issueTitle(issue.issue_title, 160),
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
