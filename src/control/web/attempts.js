// One attempt in the timeline of an issue.

import { h } from "./dom.js";
import { chip, sessionLink, shortId } from "./ui.js";
import { allTokens, cost, duration, tokens, when, words } from "./format.js";
import { cut } from "./visible.js";
import { store } from "./store.js";

const GOOD = new Set(["succeeded"]);

export const attemptTone = (outcome, state) =>
  state === "running" || !outcome
    ? "tone-run"
    : GOOD.has(outcome)
      ? "tone-good"
      : outcome === "cancelled"
        ? "tone-off"
        : "tone-bad";

/** The cost of an attempt, an estimate marked as such. */
export function costOf(attempt) {
  const all = attempt.cost_usd ?? attempt.charged?.cost_usd ?? null;
  return cost(all, attempt.cost_source === "estimate" ? all : 0);
}

export function attemptRow(recorded) {
  // What runs is recorded at its end; until then it tells of itself.
  const live = recorded.outcome
    ? null
    : store.status?.sessions.find((session) => session.session_id === recorded.session_id);
  const attempt = live
    ? { ...recorded, usage: live.usage, cost_usd: live.cost_usd ?? live.charged?.cost_usd ?? null }
    : recorded;
  const { outcome, failure_class: failed, reason } = attempt;
  return h(
    "li",
    { key: attempt.session_id, class: `attempt ${attemptTone(outcome)}` },
    h(
      "div",
      { class: "line" },
      h(
        "a",
        { href: `/sessions/${encodeURIComponent(attempt.session_id)}`, title: attempt.session_id, "data-item": true },
        `Attempt ${attempt.attempt}`,
      ),
      chip(outcome ?? "running"),
      failed ? h("span", { class: "tag" }, words(failed)) : null,
      attempt.exit_code ? h("span", { class: "small dim" }, `exit ${attempt.exit_code}`) : null,
      h("span", { class: "grow" }),
      h(
        "span",
        { class: "small dim num" },
        when(attempt.started_at),
        " · ",
        attempt.duration_ms === null ? when(attempt.started_at, "elapsed") : duration(attempt.duration_ms),
        " · ",
        tokens(allTokens(attempt.usage)),
        " tokens · ",
        costOf(attempt),
      ),
    ),
    reason ? h("p", { class: "small wrap clamp3" }, cut(reason, 1000)) : null,
    attempt.resumed_from
      ? h(
          "p",
          { class: "small dim" },
          "resumes ",
          sessionLink(attempt.resumed_from, `session ${shortId(attempt.resumed_from)}`),
        )
      : null,
    attempt.hooks_run_twice?.length
      ? h("p", { class: "small dim" }, "ran twice: ", attempt.hooks_run_twice.join(", "))
      : null,
  );
}
