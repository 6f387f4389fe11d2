// Numbers and times, in the words a person reads.

import { h, setTicker, tick } from "./dom.js";

// The daemon may stand on a machine with another clock: ages are counted by the server's.
let skewMs = 0;

/** Learns the server's clock from the `Date` header of an answer. */
export function learnClock(header) {
  const at = Date.parse(header ?? "");
  if (Number.isNaN(at)) return;
  const off = at - Date.now();
  // The header has whole seconds: a small difference is none.
  skewMs = Math.abs(off) > 2500 ? off : 0;
}

export const now = () => Date.now() + skewMs;

const pad = (n) => String(n).padStart(2, "0");

/** `3m 05s` */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = Math.max(0, Math.round(ms / 1000));
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${pad(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${pad(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d ${pad(Math.floor((s % 86400) / 3600))}h`;
}

function rough(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400 * 2) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

function relative(mode, iso) {
  const ms = Date.parse(iso) - now();
  if (Number.isNaN(ms)) return iso;
  if (mode === "elapsed") return duration(Math.floor(Math.max(0, -ms) / 1000) * 1000 || 0).replace("0ms", "0s");
  if (ms > 1500) return `in ${rough(ms)}`;
  return ms > -1500 ? "now" : `${rough(-ms)} ago`;
}
setTicker(relative);
setInterval(() => {
  if (!document.hidden) tick(document);
}, 1000);

export function absolute(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return String(iso);
  return at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}

/** `14:03:09` */
export function clock(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** A time that keeps itself up to date; `mode` is `ago` (also of what is to come) or `elapsed`. */
export function when(iso, mode = "ago") {
  if (!iso) return h("span", { class: "dim" }, "–");
  return h("time", { class: "num", datetime: iso, title: `${absolute(iso)} (${iso})`, "data-tick": mode });
}

const trim = (n, digits) => n.toFixed(digits).replace(/\.0+$/, "");

/** `12.3k` */
export function tokens(n) {
  if (n === null || n === undefined) return "–";
  if (n < 1000) return String(n);
  if (n < 999_500) return `${trim(n / 1000, n < 9950 ? 1 : 0)}k`;
  if (n < 999_500_000) return `${trim(n / 1e6, n < 99.5e6 ? 1 : 0)}M`;
  return `${trim(n / 1e9, 1)}G`;
}

/** `$1.20` */
export function usd(n) {
  if (n === null || n === undefined) return "–";
  if (n > 0 && n < 0.01) return `$${n.toFixed(4)}`;
  return `$${n >= 1000 ? Math.round(n).toLocaleString("en-US") : n.toFixed(2)}`;
}

/** A sum with its estimated part apart: `$1.20 + ~$0.50 estimated` */
export function cost(total, estimated = 0) {
  if (total === null || total === undefined || !(estimated >= 5e-7)) return usd(total);
  const reported = total - estimated;
  return reported < 5e-7 ? `~${usd(estimated)} estimated` : `${usd(reported)} + ~${usd(estimated)} estimated`;
}

/** What a meter of a sum says of its estimated part. */
export const estimatedPart = (n) => (n >= 5e-7 ? `, ~${usd(n)} of it estimated` : "");

export const whole = (n) => (n ?? 0).toLocaleString("en-US");

/** `4.1 KB` */
export function bytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${trim(n / 1000, 1)} KB` : `${trim(n / 1e6, 1)} MB`;
}

/** `attempts_used_up` as `attempts used up` */
export const words = (name) => String(name ?? "").replaceAll("_", " ");

export const many = (n, one, more = `${one}s`) => `${whole(n)} ${n === 1 ? one : more}`;

export const allTokens = (usage) => (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
