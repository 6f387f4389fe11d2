// What was done in a span of time, and what it cost.

import { h } from "./dom.js";
import { coalesce, get } from "./api.js";
import { empty, failure, section, table } from "./ui.js";
import { absolute, cost, duration, tokens, whole } from "./format.js";
import { spendPlot, throughputPlot } from "./plots.js";

const SPANS = [
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
];

export function reportPage(asked) {
  const since = SPANS.some(([span]) => span === asked) ? asked : "24h";
  let redraw = () => {};
  let report = null;
  let problem = null;

  const load = coalesce(async () => {
    try {
      report = await get(`report?since=${since}`);
      problem = null;
    } catch (error) {
      problem = error;
    }
    redraw();
  }, 1500);

  const share = (figures) => {
    const ended = figures.succeeded + figures.failed;
    return ended ? `${Math.round((figures.succeeded / ended) * 100)} %` : "–";
  };
  const heads = (first) => [
    first,
    "Runs",
    "Attempts",
    "Succeeded",
    "Failed",
    "Success",
    "Median",
    "Time",
    "Tokens",
    "Cost",
  ];
  const line = (name, f) => [
    name,
    whole(f.runs),
    whole(f.attempts),
    whole(f.succeeded),
    whole(f.failed),
    share(f),
    duration(f.median_duration_ms),
    duration(f.duration_ms),
    tokens(f.spent.tokens),
    cost(f.spent.cost_usd, f.spent.estimated_usd),
  ];
  const figure = (value, label) =>
    h("div", { key: label, class: "tile" }, h("span", { class: "big num" }, value), h("span", {}, label));

  function body() {
    const { total } = report;
    return [
      h("p", { class: "dim" }, `${absolute(report.since)} to ${absolute(report.until)}`),
      total.attempts === 0
        ? empty(
            "No attempts started in this period.",
            "Choose a longer period, or open the board to see why issues are held.",
          )
        : null,
      h(
        "div",
        { class: "tiles stacked" },
        figure(whole(report.issues_succeeded), `of ${whole(report.issues)} issues succeeded`),
        figure(whole(total.attempts), "attempts"),
        figure(share(total), "of ended attempts succeeded"),
        figure(cost(total.spent.cost_usd, total.spent.estimated_usd), "spent"),
        figure(tokens(total.spent.tokens), "tokens"),
        figure(
          cost(report.cost_per_succeeded_issue_usd, total.spent.estimated_usd / report.issues_succeeded),
          "per succeeded issue",
        ),
        figure(duration(total.median_duration_ms), "median attempt"),
      ),
      h("div", { class: "plots" }, throughputPlot(report), spendPlot(report)),
      section(
        "By stage",
        {},
        table(
          "By stage",
          heads("Stage"),
          report.stages.map((f) => line(f.stage, f)),
        ),
      ),
      section(
        "By agent",
        {},
        table(
          "By agent",
          heads("Agent"),
          report.agents.map((f) => line(f.agent, f)),
        ),
      ),
    ];
  }

  return {
    title: "Report",
    enter(draw) {
      redraw = draw;
      load(0);
    },
    fact(type) {
      if (type === "session_ended" || type === "reset") load();
    },
    view: () => [
      h(
        "div",
        { class: "board-head" },
        h("h1", { class: "grow", tabindex: -1 }, "Report"),
        h(
          "nav",
          { class: "switch", "aria-label": "Period" },
          SPANS.map(([span, label]) =>
            h("a", { key: span, href: `/report?since=${span}`, "aria-current": span === since ? "true" : null }, label),
          ),
        ),
      ),
      problem ? failure(problem, () => load(0)) : null,
      report ? body() : problem ? null : h("p", { class: "dim" }, "Loading…"),
    ],
  };
}
