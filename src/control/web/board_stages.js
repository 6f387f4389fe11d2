// One column for each stage of the workflow, in its order, with the issues that stand there.

import { h } from "./dom.js";
import { button, chip, issueLink, issueTitle, sessionHref } from "./ui.js";
import { when, words } from "./format.js";
import { cut } from "./visible.js";

const ORDER = { running: 0, ready: 1, waiting: 2, held: 3 };
const SHOWN = 30;

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
              "aria-label": `${label}, transcript of ${cut(issue.issue_id, 60)}`,
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
          { class: "small dim clamp2", title: cut(hold.detail ?? "", 400) },
          h("span", { class: "strong" }, words(hold.reason)),
          hold.until ? [" · ", when(hold.until)] : null,
          hold.detail ? ` · ${cut(hold.detail, 140)}` : "",
        )
      : null,
  );
}

export function stageColumns(stages, issues, open, redraw) {
  const columns = new Map(stages.map((stage) => [stage.stage, []]));
  for (const issue of issues) for (const view of issue.stages) columns.get(view.stage)?.push({ issue, view });
  return h(
    "div",
    { class: "columns" },
    stages.map((stage) => {
      const cards = columns.get(stage.stage);
      cards.sort((a, b) => ORDER[a.view.state] - ORDER[b.view.state]);
      const shown = open.has(stage.stage) ? cards : cards.slice(0, SHOWN);
      return h(
        "div",
        { key: stage.stage, class: "column", role: "group", "aria-label": `Stage ${stage.stage}` },
        h("h3", {}, h("bdi", {}, stage.stage), h("span", { class: "count num" }, cards.length)),
        h("p", { class: "small dim" }, "takes ", h("bdi", {}, `“${stage.when_state}”`), " · ", stage.agent),
        cards.length
          ? h("ul", { class: "cards" }, shown.map(card))
          : h("p", { class: "small dim none" }, "No issues."),
        shown.length < cards.length
          ? button(`Show ${cards.length - shown.length} more`, () => {
              open.add(stage.stage);
              redraw();
            })
          : null,
      );
    }),
  );
}

/** Issues that no stage takes now: done, in a state nobody handles, or gone. */
export function noStage(stages, issues) {
  const names = new Set(stages.map((stage) => stage.stage));
  const rest = issues.filter((issue) => !issue.stages.some((view) => names.has(view.stage)));
  if (!rest.length) return null;
  return h(
    "details",
    { class: "fold", key: "no-stage" },
    h("summary", {}, "In no stage", h("span", { class: "count num" }, rest.length)),
    h(
      "ul",
      { class: "rows" },
      rest
        .slice(0, 300)
        .map((issue) =>
          h(
            "li",
            { key: issue.issue_id, class: "hold-row" },
            h(
              "div",
              { class: "line" },
              issueLink(issue.issue_id),
              issueTitle(issue.issue_title, 160),
              h(
                "span",
                { class: "small dim" },
                issue.issue_state ? `“${cut(issue.issue_state, 60)}”` : "",
                issue.hold ? ` · ${words(issue.hold.reason)}` : "",
              ),
            ),
          ),
        ),
    ),
  );
}
