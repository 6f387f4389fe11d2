// The report: attempts, results and costs of a period.

import { h } from "./dom.js";
import { coalesce, get } from "./api.js";
import { emptyState, errorNotice, section, table } from "./ui.js";
import {
  estimateSuffix,
  formatCost,
  formatDateTime,
  formatDuration,
  formatInteger,
  formatTokens,
  formatUsd,
} from "./format.js";
import { spendPlot, throughputPlot } from "./plots.js";

const PERIODS = [
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
];

export function reportPage(requestedPeriod) {
  const since = PERIODS.some(([period]) => period === requestedPeriod) ? requestedPeriod : "24h";
  let redraw = () => {};
  let report = null;
  let loadError = null;

  const load = coalesce(async () => {
    try {
      report = await get(`report?since=${since}`);
      loadError = null;
    } catch (error) {
      loadError = error;
    }
    redraw();
  }, 1500);

  const successRate = (figures) => {
    const ended = figures.succeeded + figures.failed;
    return ended ? `${Math.round((figures.succeeded / ended) * 100)} %` : "–";
  };
  const columnNames = (firstColumn) => [
    firstColumn,
    "Runs",
    "Attempts",
    "Succeeded",
    "Failed",
    "Asked",
    "Success",
    "Median",
    "Time",
    "Tokens",
    "Cost",
  ];
  const tableRow = (name, figures) => [
    name,
    formatInteger(figures.runs),
    formatInteger(figures.attempts),
    formatInteger(figures.succeeded),
    formatInteger(figures.failed),
    formatInteger(figures.asked ?? 0),
    successRate(figures),
    formatDuration(figures.median_duration_ms),
    formatDuration(figures.duration_ms),
    formatTokens(figures.spent.tokens),
    formatCost(figures.spent.cost_usd, figures.spent.estimated_usd),
  ];
  const tile = (value, label) =>
    h("div", { key: label, class: "tile" }, h("span", { class: "big num" }, value), h("span", {}, label));

  const costTile = (amount, estimated, label) =>
    tile(`${estimated >= 5e-7 ? "~" : ""}${formatUsd(amount)}`, `${label}${estimateSuffix(estimated)}`);

  function body() {
    const { total } = report;
    return [
      h("p", { class: "dim" }, `${formatDateTime(report.since)} to ${formatDateTime(report.until)}`),
      total.attempts === 0
        ? emptyState(
            "No attempts started in this period.",
            "Choose a longer period, or open the board to see why issues are held.",
          )
        : null,
      h(
        "div",
        { class: "tiles stacked" },
        tile(formatInteger(report.issues_succeeded), `of ${formatInteger(report.issues)} issues succeeded`),
        tile(formatInteger(total.attempts), "attempts"),
        tile(successRate(total), "of ended attempts succeeded"),
        costTile(total.spent.cost_usd, total.spent.estimated_usd, "spent"),
        tile(formatTokens(total.spent.tokens), "tokens"),
        costTile(
          report.cost_per_succeeded_issue_usd,
          total.spent.estimated_usd / report.issues_succeeded,
          "per succeeded issue",
        ),
        tile(formatDuration(total.median_duration_ms), "median attempt"),
      ),
      h("div", { class: "plots" }, throughputPlot(report), spendPlot(report)),
      section(
        "By stage",
        {},
        table(
          "By stage",
          columnNames("Stage"),
          report.stages.map((figures) => tableRow(figures.stage, figures)),
        ),
      ),
      section(
        "By agent",
        {},
        table(
          "By agent",
          columnNames("Agent"),
          report.agents.map((figures) => tableRow(figures.agent, figures)),
        ),
      ),
    ];
  }

  return {
    title: "Report",
    mount(scheduleRender) {
      redraw = scheduleRender;
      load(0);
    },
    onFact(type) {
      if (type === "session_ended" || type === "reset") load();
    },
    view: () => [
      h(
        "div",
        { class: "page-head" },
        h("h1", { class: "grow", tabindex: -1 }, "Report"),
        h(
          "nav",
          { class: "switch", "aria-label": "Period" },
          PERIODS.map(([period, label]) =>
            h(
              "a",
              { key: period, href: `/report?since=${period}`, "aria-current": period === since ? "true" : null },
              label,
            ),
          ),
        ),
      ),
      loadError ? errorNotice(loadError, () => load(0)) : null,
      report ? body() : loadError ? null : h("p", { class: "dim" }, "Loading…"),
    ],
  };
}
