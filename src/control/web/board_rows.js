// Rows of the board: a live session, what is parked, what waits.

import { h } from "./dom.js";
import { button, chip, issueLink, issueTitle, meter, sessionHref } from "./ui.js";
import { allTokens, many, tokens, usd, when, words } from "./format.js";
import { answer, cancel, retry } from "./steer.js";
import { cut } from "./visible.js";

/** What it counts against its limit: what is charged, and where nothing is yet, what it reports. */
function spending(session) {
  const { charged, budget, usage, cost_usd: cost } = session;
  const used = Math.max(charged?.tokens ?? 0, allTokens(usage));
  const spent = Math.max(charged?.cost_usd ?? 0, cost ?? 0);
  return h(
    "div",
    { class: "spending" },
    meter("tokens", used, budget?.tokens, tokens),
    meter("cost", spent, budget?.usd, usd),
  );
}

export function liveRow(session) {
  const id = session.issue_id;
  return h(
    "li",
    { key: session.session_id, class: "live-row" },
    h(
      "div",
      { class: "what" },
      h("div", { class: "line" }, issueLink(id, { "data-item": true }), issueTitle(session.issue_title)),
      h(
        "div",
        { class: "line small" },
        chip(session.phase),
        h(
          "span",
          { class: "activity", title: cut(session.activity ?? "", 400) },
          session.activity ? cut(session.activity, 200) : h("span", { class: "dim" }, "no activity yet"),
        ),
      ),
    ),
    h(
      "div",
      { class: "who small" },
      h(
        "span",
        {},
        h("span", { class: "strong" }, session.stage),
        h("span", { class: "dim" }, ` attempt ${session.attempt}`),
      ),
      h("span", { class: "dim" }, session.agent, session.model ? ` · ${session.model}` : ""),
      session.resumed_from || session.adopted
        ? h(
            "span",
            { class: "dim" },
            [session.resumed_from ? "resumed" : null, session.adopted ? "adopted from an earlier daemon" : null]
              .filter(Boolean)
              .join(", "),
          )
        : null,
    ),
    h(
      "div",
      { class: "times small" },
      h("span", { class: "num" }, when(session.since, "elapsed")),
      h("span", { class: "dim" }, session.last_event_at ? ["last event ", when(session.last_event_at)] : "no event yet"),
    ),
    spending(session),
    h(
      "div",
      { class: "row acts" },
      h(
        "a",
        {
          class: "btn",
          href: sessionHref(session.session_id),
          "aria-label": `Transcript of ${cut(id, 60)}, ${session.stage}`,
        },
        "Transcript",
      ),
      button("Cancel", () => cancel(id), {
        kind: "danger-quiet",
        "aria-label": `Cancel ${cut(id, 60)}, ${session.stage}`,
      }),
    ),
  );
}

export function approvalRow(approval) {
  const id = approval.issue_id;
  const what = `${cut(id, 60)}, ${approval.stage}`;
  return h(
    "li",
    { key: approval.id, class: "hold-row" },
    h(
      "div",
      { class: "what" },
      h(
        "div",
        { class: "line" },
        issueLink(id, { "data-item": true }),
        h("span", { class: "strong" }, approval.stage),
        chip("waiting", words(approval.gate)),
        h("span", { class: "dim small" }, when(approval.since)),
      ),
      approval.issue_title ? h("p", { class: "clamp2" }, issueTitle(approval.issue_title)) : null,
      h("p", { class: "small clamp3" }, cut(approval.detail, 600)),
      h(
        "p",
        { class: "small dim" },
        approval.on_timeout === "approve" ? "Approved " : "Denied ",
        when(approval.until),
        " without an answer",
      ),
    ),
    h(
      "div",
      { class: "row acts" },
      button("Approve…", () => answer(approval, true), { kind: "primary", "aria-label": `Approve ${what}` }),
      button("Deny…", () => answer(approval, false), { kind: "danger-quiet", "aria-label": `Deny ${what}` }),
    ),
  );
}

export function parkedRow(parked, title) {
  const id = parked.issue_id;
  return h(
    "li",
    { key: `${parked.run_id}/${parked.stage}`, class: "hold-row" },
    h(
      "div",
      { class: "what" },
      h(
        "div",
        { class: "line" },
        issueLink(id, { "data-item": true }),
        h("span", { class: "strong" }, parked.stage),
        chip("parked", words(parked.reason)),
        h("span", { class: "dim small" }, when(parked.since)),
      ),
      title ? h("p", { class: "clamp2" }, issueTitle(title)) : null,
      h("p", { class: "small clamp3" }, cut(parked.detail, 600)),
      h("p", { class: "small dim" }, "Freed by: ", parked.freed_by),
    ),
    button("Retry", () => retry(id, { stage: parked.stage }), {
      kind: "primary-quiet",
      "aria-label": `Retry ${cut(id, 60)}, ${parked.stage}`,
    }),
  );
}

export function waitingRow(waiting, title) {
  return h(
    "li",
    { key: `${waiting.issue_id}/${waiting.stage}`, class: "hold-row" },
    h(
      "div",
      { class: "what" },
      h(
        "div",
        { class: "line" },
        issueLink(waiting.issue_id, { "data-item": true }),
        h("span", { class: "strong" }, waiting.stage),
        chip("waiting", words(waiting.reason)),
        waiting.until ? h("span", { class: "small" }, when(waiting.until)) : null,
      ),
      title ? h("p", { class: "clamp2" }, issueTitle(title)) : null,
      waiting.detail || waiting.attempts
        ? h(
            "p",
            { class: "small dim clamp2" },
            [cut(waiting.detail ?? "", 400), waiting.attempts ? `${many(waiting.attempts, "attempt")} so far` : null]
              .filter(Boolean)
              .join(" · "),
          )
        : null,
    ),
  );
}
