// Plots of a report's series: bars in SVG, and the same figures as a table for those who do not see them.

import { h } from "./dom.js";
import { table } from "./ui.js";
import { cost, many, tokens, usd } from "./format.js";

const HEIGHT = 150;
const LEFT = 44;
const BOTTOM = 20;
const TOP = 8;

/** A round number not below, for the axis. */
function roundUp(n) {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= n * 0.999) ?? n;
}

const day = (iso) => new Date(iso).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
const time = (iso) => new Date(iso).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

/** Where the name of a bar stands; the last one must not reach over the edge. */
const label = (x, width) =>
  x + 20 > width
    ? { class: "axis", x: width, y: HEIGHT - 5, "text-anchor": "end" }
    : { class: "axis", x, y: HEIGHT - 5, "text-anchor": "middle" };

/** Stacked bars: `stacks` names the layers as `[class, word, value(part)]`. */
function bars({ title, summary, report, stacks, show, integer }) {
  const { series, part_ms: partMs } = report;
  const sum = (part) => stacks.reduce((all, [, , value]) => all + value(part), 0);
  // The text in it must stay readable where the plot is narrow.
  const width = innerWidth < 640 ? 340 : 640;
  const days = series.length * partMs > 48 * 3600_000;
  let top = roundUp(Math.max(...series.map(sum), 0));
  if (integer) top = Math.max(2, Math.ceil(top / 2) * 2);
  const step = (width - LEFT) / Math.max(series.length, 1);
  const inner = HEIGHT - BOTTOM - TOP;
  const y = (value) => TOP + inner - (value / top) * inner;
  const grid = [0, top / 2, top].map((value) =>
    h(
      "g",
      { key: value },
      h("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      h("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, show(value)),
    ),
  );
  const every = Math.max(1, Math.ceil(series.length / (width / 90)));
  const rects = series.map((part, at) => {
    let from = 0;
    return h(
      "g",
      { key: part.at },
      stacks.map(([cls, , value]) => {
        const n = value(part);
        const before = from;
        from += n;
        return n > 0
          ? h("rect", {
              key: cls,
              class: cls,
              x: LEFT + at * step + step * 0.12,
              width: step * 0.76,
              y: y(from),
              height: Math.max(1, y(before) - y(from)),
              rx: 1,
            })
          : null;
      }),
      at % every === 0
        ? h(
            "text",
            label(LEFT + (at + 0.5) * step, width),
            (days ? day : time)(part.at),
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
      stacks.length > 1
        ? h(
            "span",
            { class: "legend small" },
            stacks.map(([cls, word]) =>
              h("span", { key: word }, h("span", { class: `swatch ${cls}`, "aria-hidden": "true" }), word),
            ),
          )
        : null,
    ),
    h(
      "svg",
      {
        viewBox: `0 0 ${width} ${HEIGHT}`,
        role: "img",
        "aria-label": `${title}: ${summary}. The values are in the table below.`,
      },
      grid,
      rects,
    ),
    h(
      "details",
      { class: "fold small" },
      h("summary", {}, "Show as a table"),
      table(
        title,
        ["From", ...stacks.map(([, word]) => word)],
        series.map((part) => [
          days ? `${day(part.at)}, ${time(part.at)}` : time(part.at),
          ...stacks.map(([, , value]) => show(value(part))),
        ]),
      ),
    ),
  );
}

export function throughputPlot(report) {
  const { succeeded, failed } = report.total;
  return bars({
    title: "Ended attempts",
    report,
    integer: true,
    show: (n) => String(n),
    summary: `${many(succeeded, "succeeded", "succeeded")}, ${many(failed, "failed", "failed")}`,
    stacks: [
      ["fill-good", "succeeded", (part) => part.succeeded],
      ["fill-bad", "other outcomes", (part) => part.failed],
    ],
  });
}

/** Money, or tokens where nothing has a price. */
export function spendPlot(report) {
  const money = report.total.spent.cost_usd > 0;
  return bars({
    title: money ? "Spend" : "Tokens",
    report,
    show: money ? usd : tokens,
    summary: money
      ? `${cost(report.total.spent.cost_usd, report.total.spent.estimated_usd)} and ${tokens(report.total.spent.tokens)} tokens`
      : `${tokens(report.total.spent.tokens)} tokens`,
    stacks: [["fill-run", money ? "spent" : "tokens", (part) => (money ? part.spent.cost_usd : part.spent.tokens)]],
  });
}
