// One event of a session log as a row.

import { h } from "./dom.js";
import { absolute, allTokens, clock, cost, duration, tokens, usd, words } from "./format.js";
import { cut } from "./visible.js";
import { diffLines, fenced, long } from "./text.js";

const LABELS = {
  session_started: "Started",
  message: "Message",
  reasoning: "Reasoning",
  tool_call: "Tool",
  tool_result: "Result",
  subagent: "Sub-agent",
  token_usage: "Usage",
  rate_limit: "Rate limit",
  approval: "Permission",
  error: "Error",
  unknown: "Unknown",
  malformed: "Malformed",
  completed: "Completed",
  resumed: "Resumed",
  resume_failed: "Not resumed",
  limit: "Limit",
  output: "Output",
  ended: "Ended",
};
/** What a tool's input is mostly about, in the words of the agents. */
const GIST = ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt"];

const own = (object, key) =>
  object && typeof object === "object" && Object.hasOwn(object, key) ? object[key] : undefined;

function gist(input) {
  if (typeof input === "string") return input;
  for (const name of GIST) {
    const value = own(input, name);
    if (typeof value === "string" && value) return value;
    if (Array.isArray(value)) return value.join(" ");
  }
  const changes = own(input, "changes");
  if (Array.isArray(changes)) return changes.map((change) => own(change, "path") ?? "").join(", ");
  return input === undefined || input === null ? "" : JSON.stringify(input);
}

const pretty = (value) => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));

/** An input as it is best read: an edit as a diff, a command as it is typed, all else as JSON. */
function inputView(input, key, open, redraw) {
  const before = own(input, "old_string");
  const after = own(input, "new_string");
  if (typeof before === "string" && typeof after === "string") {
    const lines = (text, sign) => (text ? text.split("\n").map((line) => sign + line) : []);
    return h(
      "div",
      {},
      h("p", { class: "mono small dim" }, cut(gist(input), 300)),
      diffLines([...lines(before, "-"), ...lines(after, "+")].join("\n"), open.has(key)),
    );
  }
  const one = input && typeof input === "object" && Object.keys(input).length === 1 ? gist(input) : null;
  return long(one ?? pretty(input), key, open, redraw, "mono code");
}

/** What a tool gave: text, or what the agent printed, from which the text is taken where there is one. */
function outputText(output) {
  if (Array.isArray(output)) {
    const texts = output.map((piece) => own(piece, "text"));
    if (texts.every((text) => typeof text === "string")) return texts.join("\n");
  }
  return pretty(output);
}

function outcomeOf(result, over) {
  if (!result) return over ? ["off", "no result"] : ["run", "open"];
  if (typeof result.exit_code === "number" && result.exit_code !== 0) return ["bad", `exit ${result.exit_code}`];
  return result.is_error ? ["bad", "failed"] : ["good", "ok"];
}

function toolView(event, { result, open, redraw, over }) {
  const key = `tool ${event.seq}`;
  const [tone, word] = outcomeOf(result, over);
  const isOpen = open.has(key);
  return h(
    "details",
    {
      class: "tool",
      open: isOpen,
      on: {
        toggle: (toggled) => {
          if (toggled.target !== toggled.currentTarget || toggled.target.open === open.has(key)) return;
          if (toggled.target.open) open.add(key);
          else open.delete(key);
          redraw();
        },
      },
    },
    h(
      "summary",
      {},
      h("span", { class: "strong mono" }, cut(event.tool, 60)),
      h("span", { class: "gist mono" }, cut(gist(event.input).replaceAll(/\s+/g, " "), 220)),
      h("span", { class: `result tone-${tone}` }, word),
    ),
    isOpen
      ? h(
          "div",
          { class: "tool-body" },
          event.input === undefined ? null : inputView(event.input, `${key} in`, open, redraw),
          result
            ? resultBody(result, open, redraw)
            : h("p", { class: "dim small" }, over ? "No result." : "No result yet."),
        )
      : null,
  );
}

const resultBody = (result, open, redraw) =>
  result.output === undefined || result.output === ""
    ? h("p", { class: "dim small" }, "No output.")
    : long(
        outputText(result.output),
        `out ${result.seq}`,
        open,
        redraw,
        `mono code${result.is_error ? " failed" : ""}`,
      );

const line = (...kids) => h("p", { class: "note" }, kids);

const BODIES = {
  message: (event, { open, redraw }) => fenced(event.text, `text ${event.seq}`, open, redraw),
  reasoning: (event, { open, redraw }) => long(event.text, `text ${event.seq}`, open, redraw, "reasoning"),
  tool_call: toolView,
  tool_result: (event, { open, redraw }) =>
    h("div", {}, line(`of the call ${cut(event.call_id, 60)}, which is not loaded`), resultBody(event, open, redraw)),
  session_started: (event) =>
    line(["with", event.model ?? "the agent", event.agent_version ? `· version ${event.agent_version}` : ""].join(" ")),
  subagent: (event) => line(`${words(event.status)}${event.description ? `: ${cut(event.description, 500)}` : ""}`),
  token_usage: (event) =>
    line(
      h(
        "span",
        { class: "num" },
        `${tokens(allTokens(event.usage))} tokens`,
        event.cost_usd === undefined ? "" : ` · ${cost(event.cost_usd, event.cost_source === "estimate" ? event.cost_usd : 0)}`,
      ),
    ),
  rate_limit: (event) =>
    line(
      [
        words(event.status ?? "told"),
        typeof event.utilization === "number" ? `${Math.round(event.utilization * 100)} % used` : null,
        event.resets_at_unix ? `resets ${absolute(event.resets_at_unix * 1000)}` : null,
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  approval: (event) =>
    line(`${cut(event.tool, 60)}: ${words(event.decision)}${event.detail ? ` · ${cut(event.detail, 500)}` : ""}`),
  error: (event, { open, redraw }) =>
    h(
      "div",
      {},
      long(event.message, `text ${event.seq}`, open, redraw),
      line(
        [
          event.fatal ? "The agent stopped because of this error" : "Not fatal",
          event.failure_class ? words(event.failure_class) : null,
          event.http_status ? `HTTP ${event.http_status}` : null,
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
  unknown: (event, { open, redraw }) =>
    long(JSON.stringify(event.raw ?? null), `text ${event.seq}`, open, redraw, "mono code"),
  malformed: (event, { open, redraw }) => long(event.line, `text ${event.seq}`, open, redraw, "mono code"),
  completed: (event, { open, redraw }) =>
    h(
      "div",
      {},
      line(
        event.ok ? "The agent reported success." : "The agent reported failure.",
        event.reason ? ` (${event.reason})` : "",
      ),
      event.message ? fenced(event.message, `text ${event.seq}`, open, redraw) : null,
      event.result === undefined ? null : long(pretty(event.result), `result ${event.seq}`, open, redraw, "mono code"),
    ),
  resumed: (event) =>
    line(
      "the conversation of ",
      h("a", { href: `/sessions/${encodeURIComponent(event.resumed_from)}` }, event.resumed_from),
    ),
  resume_failed: (event) => line(`${cut(event.reason, 1000)} (${event.resumed_from})`),
  limit: (event) =>
    line(
      `${event.percent} % of the ${words(event.unit)} limit ${event.scope === "day" ? "of the day" : `of the ${words(event.scope)}`}: ${
        event.unit === "usd"
          ? `${usd(event.spent / 1e6)} of ${usd(event.limit / 1e6)}`
          : `${tokens(event.spent)} of ${tokens(event.limit)}`
      }`,
    ),
  output: (event) =>
    line(
      h("span", { class: "strong" }, `${words(event.output || "output")} ${words(event.status)}`),
      event.summary ? ` ${cut(event.summary, 300)}` : "",
      event.reason ? ` · ${cut(event.reason, 1000)}` : "",
    ),
  ended: (event, { open, redraw }) =>
    h(
      "div",
      {},
      line(
        h("span", { class: "strong" }, words(event.outcome)),
        ` after ${duration(event.duration_ms)}`,
        event.failure_class ? ` · ${words(event.failure_class)}` : "",
        event.exit_code === null ? "" : ` · exit ${event.exit_code}`,
        event.signal ? ` · signal ${event.signal}` : "",
      ),
      event.reason ? long(event.reason, `text ${event.seq}`, open, redraw) : null,
    ),
};

function toneOf(event) {
  if (event.kind === "error") return event.fatal ? "bad" : "wait";
  if (event.kind === "ended") return event.outcome === "succeeded" ? "good" : "bad";
  if (event.kind === "completed") return event.ok ? "good" : "bad";
  if (event.kind === "output") return { applied: "good", skipped: "off" }[event.status] ?? "bad";
  return { malformed: "wait", limit: "wait", resume_failed: "wait", rate_limit: "wait" }[event.kind] ?? "off";
}

/** A row; `event` is `undefined` while it is loaded. */
export function eventRow(seq, event, how) {
  if (event === undefined) {
    return h(
      "article",
      {
        key: seq,
        class: "event loading",
        "aria-busy": "true",
        "aria-posinset": seq,
        "aria-setsize": how.total,
        "aria-label": `Event ${seq} is loading`,
      },
      h("span", { class: "seq num" }, seq),
    );
  }
  const label = Object.hasOwn(LABELS, event.kind) ? LABELS[event.kind] : words(event.kind);
  let body;
  try {
    body = Object.hasOwn(BODIES, event.kind)
      ? BODIES[event.kind](event, how)
      : long(pretty(event), `text ${seq}`, how.open, how.redraw, "mono code");
  } catch {
    // A line that is not as expected is shown as it is rather than lost.
    body = long(pretty(event), `text ${seq}`, how.open, how.redraw, "mono code");
  }
  return h(
    "article",
    {
      key: seq,
      class: `event kind-${event.kind} tone-${toneOf(event)}${how.found ? " found" : ""}`,
      tabindex: -1,
      "data-item": true,
      "aria-posinset": seq,
      "aria-setsize": how.total,
      "aria-label": `Event ${seq}, ${label}`,
    },
    h(
      "div",
      { class: "gutter" },
      h("a", { class: "seq num", href: `#event-${seq}`, tabindex: -1 }, seq),
      h("time", { class: "num", datetime: event.at, title: absolute(event.at) }, clock(event.at)),
    ),
    h("div", { class: "kind" }, label),
    h("div", { class: "body" }, body),
  );
}

/** How high a row will be, roughly: so that the scroll bar hardly moves when it is measured. */
export function guessHeight(event) {
  if (!event) return 0;
  const text = event.text ?? event.message ?? event.line;
  if (typeof text !== "string") return 32;
  return 14 + 20 * Math.min(300, Math.ceil(text.length / 110) + (text.match(/\n/g)?.length ?? 0) * 0.7);
}
