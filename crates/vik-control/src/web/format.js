// Numbers and times as text.

import { h, setTimeFormatter, updateTimes } from "./dom.js";
import { truncate } from "./visible.js";

// The daemon may run on a machine with another clock: relative times use the clock of the server.
let skewMs = 0;

/** Updates the difference to the server's clock from the `Date` header of a response. */
export function updateClockSkew(header) {
  const date = Date.parse(header ?? "");
  if (Number.isNaN(date)) return;
  const difference = date - Date.now();
  // The header has a resolution of one second, so small differences are ignored.
  skewMs = Math.abs(difference) > 2500 ? difference : 0;
}

export const now = () => Date.now() + skewMs;

const pad = (n) => String(n).padStart(2, "0");

/** Formats a duration, as `3m 05s`. */
export function formatDuration(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = Math.max(0, Math.round(ms / 1000));
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${pad(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${pad(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d ${pad(Math.floor((s % 86400) / 3600))}h`;
}

function formatApproximate(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400 * 2) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

function formatRelative(mode, iso) {
  const ms = Date.parse(iso) - now();
  if (Number.isNaN(ms)) return iso;
  if (mode === "elapsed") return formatDuration(Math.floor(Math.max(0, -ms) / 1000) * 1000 || 0).replace("0ms", "0s");
  if (ms > 1500) return `in ${formatApproximate(ms)}`;
  return ms > -1500 ? "now" : `${formatApproximate(-ms)} ago`;
}
setTimeFormatter(formatRelative);
setInterval(() => {
  if (!document.hidden) updateTimes(document);
}, 1000);

const DATE_TIME = {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
  timeZoneName: "short",
};

/** Formats a time with its zone, as `1 Mar 2026, 14:03:09 GMT+1`. */
export function formatDateTime(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? String(iso) : date.toLocaleString("en-GB", DATE_TIME);
}

/** Formats the time of day, as `14:03:09`. */
export function formatTime(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** Returns a `<time>` that updates itself. `mode` is `ago` (`3 min ago` or `in 3 min`) or `elapsed` (`3m 05s`). */
export function relativeTime(iso, mode = "ago") {
  if (!iso) return h("span", { class: "dim" }, "–");
  return h("time", { class: "num", datetime: iso, title: `${formatDateTime(iso)} (${iso})`, "data-time-format": mode });
}

/** Returns a `<time>` with date, time and zone, for tables. */
export const absoluteTime = (iso) =>
  iso ? h("time", { class: "num", datetime: iso, title: iso }, formatDateTime(iso)) : h("span", { class: "dim" }, "–");

const trimmedFixed = (n, digits) => n.toFixed(digits).replace(/\.0+$/, "");

/** Formats a number of tokens, as `12.3k`. */
export function formatTokens(n) {
  if (n === null || n === undefined) return "–";
  if (n < 1000) return String(n);
  if (n < 999_500) return `${trimmedFixed(n / 1000, n < 9950 ? 1 : 0)}k`;
  if (n < 999_500_000) return `${trimmedFixed(n / 1e6, n < 99.5e6 ? 1 : 0)}M`;
  return `${trimmedFixed(n / 1e9, 1)}G`;
}

/** Formats an amount, as `$1.20`. */
export function formatUsd(n) {
  if (n === null || n === undefined) return "–";
  if (n > 0 && n < 0.01) return `$${n.toFixed(4)}`;
  return `$${n >= 1000 ? Math.round(n).toLocaleString("en-US") : n.toFixed(2)}`;
}

/** Formats an amount with its estimated part, as `$1.20 + ~$0.50 estimated`. */
export function formatCost(total, estimated = 0) {
  if (total === null || total === undefined || !(estimated >= 5e-7)) return formatUsd(total);
  const reported = total - estimated;
  const estimate = `~${formatUsd(estimated)} estimated`;
  return reported < 5e-7 ? estimate : `${formatUsd(reported)} + ${estimate}`;
}

/** Returns the suffix of a meter label for the estimated part of the amount. */
export const estimateSuffix = (n) => (n >= 5e-7 ? `, ~${formatUsd(n)} of it estimated` : "");

export const formatInteger = (n) => (n ?? 0).toLocaleString("en-US");

/** Formats a size, as `4.1 KB`. */
export function formatBytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${trimmedFixed(n / 1000, 1)} KB` : `${trimmedFixed(n / 1e6, 1)} MB`;
}

/** The outcomes of attempts, as people read them. */
export const OUTCOMES = {
  succeeded: "succeeded",
  failed: "failed",
  timed_out: "timed out",
  stalled: "stalled",
  cancelled: "cancelled",
  over_budget: "over budget",
  lost: "lost",
  asked: "asked",
};

export const outcomeName = (outcome) => OUTCOMES[outcome] ?? humanize(outcome);

/** Formats a code as text: `attempts_used_up` as `attempts used up`. */
export const humanize = (name) => String(name ?? "").replaceAll("_", " ");

export const pluralize = (n, singular, plural = `${singular}s`) => `${formatInteger(n)} ${n === 1 ? singular : plural}`;

export const totalTokens = (usage) => (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);

/**
 * Returns what is known of a running agent at this moment, the most important first: texts, and
 * elements whose times stay current.
 */
export function liveFacts(session) {
  const { stopping, waits_for: waits, context, rate_limit: limit } = session;
  const facts = [];
  if (stopping) {
    const next = stopping.step === "interrupt" ? "terminate" : "kill";
    const due = stopping.next_step_at ? [`, ${next} `, relativeTime(stopping.next_step_at)] : [];
    facts.push([`stopping (${stopping.step}`, ...due, `): ${truncate(stopping.why, 300)}`]);
  }
  if (session.turn) facts.push([`turn ${session.turn.number} of ${session.turn.max}`]);
  if (waits) {
    const detail = truncate(waits.detail ?? "", 60);
    const waitedFor = {
      tool: detail || "a tool",
      person: "a person",
      model: detail ? `the model (${detail})` : "the model",
    };
    facts.push(["waits ", relativeTime(waits.since, "elapsed"), ` for ${waitedFor[waits.kind] ?? waits.kind}`]);
  }
  if (session.tokens_per_second) facts.push([`~${Math.round(session.tokens_per_second)} tokens/s`]);
  if (context) {
    const share = context.window ? `${Math.round((context.used / context.window) * 100)}% full` : null;
    facts.push([`context ${share ?? `${formatTokens(context.used)} tokens`}`]);
  }
  if (limit) facts.push([`rate limit ${Math.round(limit.used_percent)}% used`]);
  return facts.flatMap((fact, index) => (index ? [" · ", ...fact] : fact));
}
