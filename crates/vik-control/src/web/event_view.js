// One event of a session log as a row.

import { h } from "./dom.js";
import { EVENT_LABELS } from "./event_kinds.js";
import {
  formatCost,
  formatDateTime,
  formatDuration,
  formatTime,
  formatTokens,
  formatUsd,
  humanize,
  totalTokens,
} from "./format.js";
import { truncate } from "./visible.js";
import { collapsibleText, diffLines, fencedText } from "./text.js";

/** The keys of a tool's input that summarize it best, in order of preference. */
const SUMMARY_KEYS = ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt"];

const getOwn = (object, key) =>
  object && typeof object === "object" && Object.hasOwn(object, key) ? object[key] : undefined;

function summarizeInput(input) {
  if (typeof input === "string") return input;
  for (const name of SUMMARY_KEYS) {
    const value = getOwn(input, name);
    if (typeof value === "string" && value) return value;
    if (Array.isArray(value)) return value.join(" ");
  }
  const changes = getOwn(input, "changes");
  if (Array.isArray(changes)) return changes.map((change) => getOwn(change, "path") ?? "").join(", ");
  return input === undefined || input === null ? "" : JSON.stringify(input);
}

const formatJson = (value) => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));

/** Returns the view of a tool input: an edit as a diff, a single value as text, all else as JSON. */
function inputView(input, key, expanded, redraw) {
  const before = getOwn(input, "old_string");
  const after = getOwn(input, "new_string");
  if (typeof before === "string" && typeof after === "string") {
    const lines = (text, sign) => (text ? text.split("\n").map((line) => sign + line) : []);
    return h(
      "div",
      {},
      h("p", { class: "mono small dim" }, truncate(summarizeInput(input), 300)),
      diffLines([...lines(before, "-"), ...lines(after, "+")].join("\n"), expanded.has(key)),
    );
  }
  const single = input && typeof input === "object" && Object.keys(input).length === 1 ? summarizeInput(input) : null;
  return collapsibleText(single ?? formatJson(input), key, expanded, redraw, "mono code");
}

/** Returns the output of a tool as text: the texts of its parts if all parts have one, else formatted JSON. */
function outputText(output) {
  if (Array.isArray(output)) {
    const texts = output.map((piece) => getOwn(piece, "text"));
    if (texts.every((text) => typeof text === "string")) return texts.join("\n");
  }
  return formatJson(output);
}

function callOutcome(result, hasEnded) {
  if (!result) return hasEnded ? ["off", "no result"] : ["run", "running"];
  if (typeof result.exit_code === "number" && result.exit_code !== 0) return ["bad", `exit ${result.exit_code}`];
  return result.is_error ? ["bad", "failed"] : ["good", "ok"];
}

function toolView(event, { result, expanded, redraw, hasEnded, isMatch }) {
  const key = `tool ${event.seq}`;
  // A search can find a call without its result.
  const [tone, label] = isMatch && !result ? ["off", ""] : callOutcome(result, hasEnded);
  const isExpanded = expanded.has(key);
  return h(
    "details",
    {
      class: "tool",
      open: isExpanded,
      on: {
        toggle: (toggleEvent) => {
          if (toggleEvent.target !== toggleEvent.currentTarget || toggleEvent.target.open === expanded.has(key)) return;
          if (toggleEvent.target.open) expanded.add(key);
          else expanded.delete(key);
          redraw();
        },
      },
    },
    h(
      "summary",
      {},
      h("span", { class: "strong mono" }, truncate(event.tool, 60)),
      h("span", { class: "tool-input mono" }, truncate(summarizeInput(event.input).replaceAll(/\s+/g, " "), 220)),
      h("span", { class: `result tone-${tone}` }, label),
    ),
    isExpanded
      ? h(
          "div",
          { class: "tool-body" },
          event.input === undefined ? null : inputView(event.input, `${key} in`, expanded, redraw),
          result
            ? resultBody(result, expanded, redraw)
            : isMatch
              ? null
              : h("p", { class: "dim small" }, hasEnded ? "No result." : "No result yet."),
        )
      : null,
  );
}

const resultBody = (result, expanded, redraw) =>
  result.output === undefined || result.output === ""
    ? h("p", { class: "dim small" }, "No output.")
    : collapsibleText(
        outputText(result.output),
        `out ${result.seq}`,
        expanded,
        redraw,
        `mono code${result.is_error ? " failed" : ""}`,
      );

/** The keys of a structured result that have its text, in order of preference. */
const TEXT_KEYS = ["result", "text", "message", "summary", "response", "output"];

/** Returns the object that a text is the JSON of, or `null`. */
function parseObject(text) {
  if (typeof text !== "string" || !text.trimStart().startsWith("{")) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Returns the result of the agent: its text, then the other values. Only values with a structure are shown as JSON. */
function completedView(event, { expanded, redraw }) {
  const data = parseObject(event.message) ?? parseObject(event.result) ?? event.result;
  const entries = data && typeof data === "object" && !Array.isArray(data) ? Object.entries(data) : [];
  const isText = (value) => typeof value === "string" && value !== "";
  const textKey = TEXT_KEYS.find((key) => isText(getOwn(data, key)));
  const text = [parseObject(event.message) ? null : event.message, data, getOwn(data, textKey)].find(isText);
  const others = entries.filter(([key, value]) => !(key === textKey && value === text) && value !== null);
  return h(
    "div",
    {},
    textLine(
      event.ok ? "The agent reported success." : "The agent reported failure.",
      event.reason ? ` (${humanize(event.reason)})` : "",
    ),
    text ? fencedText(text, `text ${event.seq}`, expanded, redraw) : null,
    Array.isArray(data) ? collapsibleText(formatJson(data), `result ${event.seq}`, expanded, redraw, "mono code") : null,
    others.length
      ? h(
          "dl",
          { class: "result-values" },
          others.map(([key, value]) =>
            h(
              "div",
              { key },
              h("dt", {}, truncate(humanize(key), 60)),
              h(
                "dd",
                {},
                typeof value === "object"
                  ? collapsibleText(formatJson(value), `${key} ${event.seq}`, expanded, redraw, "mono code")
                  : collapsibleText(String(value), `${key} ${event.seq}`, expanded, redraw),
              ),
            ),
          ),
        )
      : null,
  );
}

const textLine = (...children) => h("p", { class: "note" }, children);

/** What happened to a message of a person. */
const PERSON_MESSAGE_STATES = {
  prompt: "in the prompt",
  sent: "sent to the agent",
  taken: "taken by the agent",
  rejected: "refused by the agent",
};

/** The view of each kind of event. */
const BODIES = {
  message: (event, { expanded, redraw }) => fencedText(event.text, `text ${event.seq}`, expanded, redraw),
  reasoning: (event, { expanded, redraw }) =>
    collapsibleText(event.text, `text ${event.seq}`, expanded, redraw, "reasoning"),
  tool_call: toolView,
  tool_result: (event, { expanded, redraw, isMatch }) =>
    h(
      "div",
      {},
      textLine(`of call ${truncate(event.call_id, 60)}${isMatch ? "" : " (not loaded)"}`),
      resultBody(event, expanded, redraw),
    ),
  session_started: (event) =>
    textLine(
      ["with", event.model ?? "the agent", event.agent_version ? `· version ${event.agent_version}` : ""].join(" "),
    ),
  subagent: (event) =>
    textLine(`${humanize(event.status)}${event.description ? `: ${truncate(event.description, 500)}` : ""}`),
  token_usage: (event) =>
    textLine(
      h(
        "span",
        { class: "num" },
        `${formatTokens(totalTokens(event.usage))} tokens`,
        event.cost_usd === undefined
          ? ""
          : ` · ${formatCost(event.cost_usd, event.cost_source === "estimate" ? event.cost_usd : 0)}`,
      ),
    ),
  rate_limit: (event) =>
    textLine(
      [
        humanize(event.status ?? "reported"),
        typeof event.utilization === "number" ? `${Math.round(event.utilization * 100)} % used` : null,
        event.resets_at_unix ? `resets ${formatDateTime(event.resets_at_unix * 1000)}` : null,
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  approval: (event) =>
    textLine(
      `${truncate(event.tool, 60)}: ${humanize(event.decision)}`,
      event.detail ? ` · ${truncate(event.detail, 500)}` : "",
    ),
  error: (event, { expanded, redraw }) => {
    const remarks = [
      event.fatal ? "The agent stopped because of this error" : null,
      event.failure_class ? humanize(event.failure_class) : null,
      event.http_status ? `HTTP ${event.http_status}` : null,
    ].filter(Boolean);
    return h(
      "div",
      {},
      collapsibleText(event.message, `text ${event.seq}`, expanded, redraw),
      remarks.length > 0 ? textLine(remarks.join(" · ")) : null,
    );
  },
  unknown: (event, { expanded, redraw }) =>
    collapsibleText(JSON.stringify(event.raw ?? null), `text ${event.seq}`, expanded, redraw, "mono code"),
  malformed: (event, { expanded, redraw }) =>
    collapsibleText(event.line, `text ${event.seq}`, expanded, redraw, "mono code"),
  completed: completedView,
  resumed: (event) =>
    textLine(
      "the conversation of ",
      h("a", { href: `/sessions/${encodeURIComponent(event.resumed_from)}` }, event.resumed_from),
    ),
  resume_failed: (event) => textLine(`${truncate(event.reason, 1000)} (${event.resumed_from})`),
  limit: (event) =>
    textLine(
      `${event.percent} % of the ${humanize(event.unit)} limit of the ${humanize(event.scope)}: ${
        event.unit === "usd"
          ? `${formatUsd(event.spent / 1e6)} of ${formatUsd(event.limit / 1e6)}`
          : `${formatTokens(event.spent)} of ${formatTokens(event.limit)}`
      }`,
    ),
  output: (event) =>
    textLine(
      h("span", { class: "strong" }, `${humanize(event.output || "output")} ${humanize(event.status)}`),
      event.summary ? ` ${truncate(event.summary, 300)}` : "",
      event.reason ? ` · ${truncate(event.reason, 1000)}` : "",
    ),
  person_message: (event, { expanded, redraw }) =>
    h(
      "div",
      {},
      event.text ? collapsibleText(event.text, `text ${event.seq}`, expanded, redraw) : null,
      textLine(
        h("span", { class: "strong" }, PERSON_MESSAGE_STATES[event.state] ?? humanize(event.state)),
        ` · ${truncate(event.by, 120)}, sent at ${formatDateTime(event.sent_at)}`,
      ),
    ),
  turn: (event, { expanded, redraw }) =>
    h(
      "div",
      {},
      textLine(`turn ${event.number} of ${event.of}: ${humanize(event.why)}`),
      collapsibleText(event.prompt, `text ${event.seq}`, expanded, redraw),
    ),
  question: (event, { expanded, redraw }) =>
    h(
      "div",
      {},
      collapsibleText(event.question, `text ${event.seq}`, expanded, redraw),
      event.choices?.length
        ? h("ol", { class: "small" }, event.choices.map((choice) => h("li", {}, truncate(choice, 200))))
        : null,
      event.default ? textLine(`without an answer: ${truncate(event.default, 400)}`) : null,
    ),
  answer: (event, { expanded, redraw }) =>
    h(
      "div",
      {},
      textLine(h("span", { class: "strong" }, truncate(event.question, 400))),
      collapsibleText(event.answer, `text ${event.seq}`, expanded, redraw),
      textLine(`${truncate(event.by, 120)}, at ${formatDateTime(event.answered_at)}`),
    ),
  ended: (event, { expanded, redraw }) =>
    h(
      "div",
      {},
      textLine(
        h("span", { class: "strong" }, humanize(event.outcome)),
        ` after ${formatDuration(event.duration_ms)}`,
        event.failure_class ? ` · ${humanize(event.failure_class)}` : "",
        event.exit_code === null ? "" : ` · exit ${event.exit_code}`,
        event.signal ? ` · signal ${event.signal}` : "",
      ),
      event.reason ? collapsibleText(event.reason, `text ${event.seq}`, expanded, redraw) : null,
    ),
};

function toneOf(event) {
  if (event.kind === "error") return event.fatal ? "bad" : "wait";
  if (event.kind === "ended") return event.outcome === "succeeded" ? "good" : "bad";
  if (event.kind === "completed") return event.ok ? "good" : "bad";
  if (event.kind === "output") return { applied: "good", skipped: "off" }[event.status] ?? "bad";
  return { malformed: "wait", limit: "wait", resume_failed: "wait", rate_limit: "wait" }[event.kind] ?? "off";
}

/** Returns the row of an event. `event` is `undefined` while it is loading. */
export function eventRow(seq, event, options) {
  if (event === undefined) {
    return h(
      "article",
      {
        key: seq,
        class: "event loading",
        "aria-busy": "true",
        "aria-posinset": seq,
        "aria-setsize": options.total,
        "aria-label": `Event ${seq} is loading`,
      },
      h("span", { class: "seq num" }, seq),
    );
  }
  const label = Object.hasOwn(EVENT_LABELS, event.kind) ? EVENT_LABELS[event.kind] : humanize(event.kind);
  let body;
  try {
    body = Object.hasOwn(BODIES, event.kind)
      ? BODIES[event.kind](event, options)
      : collapsibleText(formatJson(event), `text ${seq}`, options.expanded, options.redraw, "mono code");
  } catch {
    // An event with unexpected fields is shown as JSON.
    body = collapsibleText(formatJson(event), `text ${seq}`, options.expanded, options.redraw, "mono code");
  }
  return h(
    "article",
    {
      key: seq,
      class: `event kind-${event.kind} tone-${toneOf(event)}${options.isHighlighted ? " highlighted" : ""}`,
      tabindex: -1,
      "data-item": true,
      "aria-posinset": seq,
      "aria-setsize": options.total,
      "aria-label": `Event ${seq}, ${label}`,
    },
    h(
      "div",
      { class: "gutter" },
      h("a", { class: "seq num", href: `#event-${seq}`, tabindex: -1 }, seq),
      h("time", { class: "num", datetime: event.at, title: formatDateTime(event.at) }, formatTime(event.at)),
    ),
    h("div", { class: "kind" }, label),
    h("div", { class: "body" }, body),
  );
}

/** Estimates the height of a row, so that the scroll bar hardly moves when the row is measured. */
export function estimateHeight(event) {
  if (!event) return 0;
  const text = event.text ?? event.message ?? event.line;
  if (typeof text !== "string") return 32;
  return 14 + 20 * Math.min(300, Math.ceil(text.length / 110) + (text.match(/\n/g)?.length ?? 0) * 0.7);
}
