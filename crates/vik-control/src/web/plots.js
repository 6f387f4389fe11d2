// Plots of the series of a report: bars in SVG, and the same values as a table for screen readers.

import { h } from "./dom.js";
import { table } from "./ui.js";
import { absoluteTime, formatCost, formatTokens, formatUsd, pluralize } from "./format.js";

const PLOT_HEIGHT = 150;
const MARGIN_LEFT = 44;
const MARGIN_BOTTOM = 20;
const MARGIN_TOP = 8;

/** Returns a round number that is not less than `n`, for the axis. */
function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= value * 0.999) ?? value;
}

const formatDay = (iso) => new Date(iso).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
const formatTimeOfDay = (iso) => new Date(iso).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

/** Returns the attributes of the label of a bar. The last label is aligned to the edge. */
const labelPosition = (x, width) =>
  x + 20 > width
    ? { class: "axis", x: width, y: PLOT_HEIGHT - 5, "text-anchor": "end" }
    : { class: "axis", x, y: PLOT_HEIGHT - 5, "text-anchor": "middle" };

/** Returns a plot of stacked bars. `layers` has `[class, label, getValue(interval), formatCell?]` for each layer. */
function barChart({ title, summary, report, layers, format, isInteger }) {
  const { series, part_ms: partMs } = report;
  const total = (interval) => layers.reduce((sum, [, , getValue]) => sum + getValue(interval), 0);
  // A narrow plot has a smaller view box, so that its text remains readable.
  const width = innerWidth < 640 ? 340 : 640;
  const showsDays = series.length * partMs > 48 * 3600_000;
  let max = roundUp(Math.max(...series.map(total), 0));
  if (isInteger) max = Math.max(2, Math.ceil(max / 2) * 2);
  const barStep = (width - MARGIN_LEFT) / Math.max(series.length, 1);
  const innerHeight = PLOT_HEIGHT - MARGIN_BOTTOM - MARGIN_TOP;
  const y = (value) => MARGIN_TOP + innerHeight - (value / max) * innerHeight;
  const gridLines = [0, max / 2, max].map((value) =>
    h(
      "g",
      { key: value },
      h("line", { class: "grid", x1: MARGIN_LEFT, x2: width, y1: y(value), y2: y(value) }),
      h("text", { class: "axis", x: MARGIN_LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    ),
  );
  const labelInterval = Math.max(1, Math.ceil(series.length / (width / 90)));
  const rects = series.map((interval, index) => {
    let sumBelow = 0;
    return h(
      "g",
      { key: interval.at },
      layers.map(([cls, , getValue]) => {
        const value = getValue(interval);
        const bottom = sumBelow;
        sumBelow += value;
        return value > 0
          ? h("rect", {
              key: cls,
              class: cls,
              x: MARGIN_LEFT + index * barStep + barStep * 0.12,
              width: barStep * 0.76,
              y: y(sumBelow),
              height: Math.max(1, y(bottom) - y(sumBelow)),
              rx: 1,
            })
          : null;
      }),
      index % labelInterval === 0
        ? h(
            "text",
            labelPosition(MARGIN_LEFT + (index + 0.5) * barStep, width),
            (showsDays ? formatDay : formatTimeOfDay)(interval.at),
          )
        : null,
    );
  });
  return h(
    "figure",
    { class: "plot", key: title },
    h(
      "figcaption",
      {},
      h("span", { class: "strong" }, title),
      " ",
      h("span", { class: "dim" }, summary),
      layers.length > 1
        ? h(
            "span",
            { class: "legend small" },
            layers.map(([cls, label]) =>
              h("span", { key: label }, h("span", { class: `swatch ${cls}`, "aria-hidden": "true" }), label),
            ),
          )
        : null,
    ),
    h(
      "svg",
      {
        viewBox: `0 0 ${width} ${PLOT_HEIGHT}`,
        role: "img",
        "aria-label": `${title}: ${summary}. The values are in the table below.`,
      },
      gridLines,
      rects,
    ),
    h(
      "details",
      { class: "collapsible small" },
      h("summary", {}, "Show as a table"),
      table(
        title,
        ["From", ...layers.map(([, label]) => label)],
        series.map((interval) => [
          absoluteTime(interval.at),
          ...layers.map(([, , getValue, formatCell = format]) => formatCell(getValue(interval), interval)),
        ]),
      ),
    ),
  );
}

export function throughputPlot(report) {
  const { succeeded, failed } = report.total;
  return barChart({
    title: "Ended attempts",
    report,
    isInteger: true,
    format: (value) => String(value),
    summary: `${pluralize(succeeded, "succeeded", "succeeded")}, ${pluralize(failed, "failed", "failed")}`,
    layers: [
      ["fill-good", "succeeded", (interval) => interval.succeeded],
      ["fill-bad", "other outcomes", (interval) => interval.failed],
    ],
  });
}

/** Returns a plot of the costs, or of the tokens if there are no costs. */
export function spendPlot(report) {
  const { spent } = report.total;
  const hasCosts = spent.cost_usd > 0;
  return barChart({
    title: hasCosts ? "Spend" : "Tokens",
    report,
    format: hasCosts ? formatUsd : formatTokens,
    summary: hasCosts
      ? `${formatCost(spent.cost_usd, spent.estimated_usd)} and ${formatTokens(spent.tokens)} tokens`
      : `${formatTokens(spent.tokens)} tokens`,
    layers: [
      hasCosts
        ? [
            "fill-run",
            "spent",
            (interval) => interval.spent.cost_usd,
            (value, interval) => formatCost(value, interval.spent.estimated_usd),
          ]
        : ["fill-run", "tokens", (interval) => interval.spent.tokens],
    ],
  });
}
