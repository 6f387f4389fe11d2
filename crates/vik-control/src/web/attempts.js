// One attempt in the timeline of an issue.

import { h } from "./dom.js";
import { chip, sessionLink, shortId } from "./ui.js";
import { formatCost, formatDuration, formatTokens, humanize, relativeTime, totalTokens } from "./format.js";
import { prose } from "./prose.js";
import { truncate } from "./visible.js";
import { store } from "./store.js";

export const attemptTone = (outcome, state) =>
  state === "running" || !outcome
    ? "tone-run"
    : outcome === "succeeded"
      ? "tone-good"
      : outcome === "cancelled"
        ? "tone-off"
        : "tone-bad";

/** Returns the formatted cost of an attempt. An estimate is marked as such. */
export const attemptCost = (attempt) => runCost({ attempts: [attempt] });

/** Returns the formatted cost of all attempts of a run. */
export function runCost({ attempts }) {
  const amount = (attempt) => attempt.cost_usd ?? attempt.charged?.cost_usd ?? null;
  const known = attempts.filter((attempt) => amount(attempt) !== null);
  const estimate = (attempt) =>
    attempt.cost_source === "estimate"
      ? amount(attempt)
      : attempt.cost_usd === null
        ? (attempt.charged?.estimated_usd ?? 0)
        : 0;
  const sum = (getAmount) => known.reduce((total, attempt) => total + getAmount(attempt), 0);
  return formatCost(known.length ? sum(amount) : null, sum(estimate));
}

export function attemptRow(record) {
  // The record of a running attempt has no usage yet: the status of its session has.
  const live = record.outcome
    ? null
    : store.status?.sessions.find((session) => session.session_id === record.session_id);
  const attempt = live
    ? { ...record, usage: live.usage, cost_usd: live.cost_usd ?? null, charged: live.charged }
    : record;
  const { outcome, failure_class: failureClass, reason } = attempt;
  return h(
    "li",
    { key: attempt.session_id, class: `attempt ${attemptTone(outcome)}` },
    h(
      "div",
      { class: "line" },
      attempt.files_removed
        ? h("span", { title: attempt.session_id }, `Attempt ${attempt.attempt}`)
        : h(
            "a",
            {
              href: `/sessions/${encodeURIComponent(attempt.session_id)}`,
              title: attempt.session_id,
              "data-item": true,
            },
            `Attempt ${attempt.attempt}`,
          ),
      attempt.turn ? h("span", { class: "small dim" }, `turn ${attempt.turn}`) : null,
      chip(outcome ?? "running"),
      attempt.files_removed
        ? h("span", { class: "tag", title: "Removed by vik prune, or because of their age" }, "Files removed")
        : null,
      failureClass ? h("span", { class: "tag", title: failureClass }, humanize(failureClass)) : null,
      attempt.exit_code ? h("span", { class: "small dim" }, `exit ${attempt.exit_code}`) : null,
      h("span", { class: "grow" }),
      h(
        "span",
        { class: "small dim num" },
        relativeTime(attempt.started_at),
        " · ",
        attempt.duration_ms === null
          ? relativeTime(attempt.started_at, "elapsed")
          : formatDuration(attempt.duration_ms),
        " · ",
        formatTokens(totalTokens(attempt.usage)),
        " tokens · ",
        attemptCost(attempt),
      ),
    ),
    reason ? h("p", { class: "small wrap clamp3" }, prose(truncate(reason, 1000))) : null,
    attempt.hand_over_failure
      ? h(
          "p",
          { class: "small wrap clamp3" },
          "The work is done, but not handed over: ",
          prose(truncate(attempt.hand_over_failure, 1000)),
        )
      : null,
    attempt.resumed_from
      ? h(
          "p",
          { class: "small dim" },
          "resumes ",
          sessionLink(attempt.resumed_from, `session ${shortId(attempt.resumed_from)}`),
        )
      : null,
    attempt.hooks_run_twice?.length
      ? h("p", { class: "small dim" }, "Hooks that ran twice: ", attempt.hooks_run_twice.join(", "))
      : null,
  );
}
