// Rows of the board: live sessions, approvals, parked and waiting stages.

import { h } from "./dom.js";
import { button, chip, costMeter, issueHeading, issueHref, meter, sessionHref } from "./ui.js";
import { formatInteger, formatTokens, humanize, liveFacts, pluralize, relativeTime, totalTokens } from "./format.js";
import { answerApproval, answerQuestion, cancel, handBack, retry } from "./steer.js";
import { prose } from "./prose.js";
import { truncate } from "./visible.js";

/** What an approval is for. */
const GATES = { before: "before the start", call: "call of a tool", after: "after the work" };

/** Returns the meters of a session: the charged amounts, or the reported ones if they are higher. */
function usageMeters(session) {
  const { charged, budget, usage } = session;
  const used = Math.max(charged?.tokens ?? 0, totalTokens(usage));
  return h(
    "div",
    { class: "usage" },
    meter("tokens", used, budget?.tokens, formatTokens),
    costMeter(session),
  );
}

export function liveRow(session) {
  const id = session.issue_id;
  return h(
    "li",
    { key: session.session_id, class: "live-row" },
    h(
      "div",
      { class: "details" },
      h("div", { class: "line" }, issueHeading(id, session.issue_title, { "data-item": true })),
      h(
        "div",
        { class: "line small" },
        chip(session.phase),
        h(
          "span",
          { class: "activity", title: truncate(session.activity ?? "", 400) },
          session.activity ? truncate(session.activity, 200) : h("span", { class: "dim" }, "no activity yet"),
        ),
      ),
      h("div", { class: "small dim wrap" }, ...liveFacts(session)),
    ),
    h(
      "div",
      { class: "agent small" },
      h(
        "span",
        {},
        h("span", { class: "strong" }, session.stage),
        h("span", { class: "dim" }, ` attempt ${session.attempt}`),
      ),
      h("span", { class: "dim" }, session.agent, session.model ? ` · ${session.model}` : ""),
      session.worker ? h("span", { class: "dim" }, `on ${session.worker}`) : null,
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
      { class: "timing small" },
      h("span", { class: "num" }, relativeTime(session.since, "elapsed")),
      h(
        "span",
        { class: "dim" },
        session.last_event_at ? ["last event ", relativeTime(session.last_event_at)] : "no event yet",
      ),
    ),
    usageMeters(session),
    h(
      "div",
      { class: "row actions" },
      h(
        "a",
        {
          class: "btn",
          href: sessionHref(session.session_id),
          "aria-label": `Transcript of ${truncate(id, 60)}, ${session.stage}`,
        },
        "Transcript",
      ),
      button("Cancel", () => cancel(id), {
        kind: "danger-quiet",
        "aria-label": `Cancel ${truncate(id, 60)}, ${session.stage}`,
      }),
    ),
  );
}

/**
 * Returns the row of a pending approval. `text` is the text of the issue, of which the beginning is shown. On the page
 * of the issue (`isOwnPage`), which shows all of it, the row has neither the text nor links to the page.
 */
export function approvalRow(approval, { text = "", isOwnPage = false } = {}) {
  const id = approval.issue_id;
  const subject = `${truncate(id, 60)}, ${approval.stage}`;
  return h(
    "li",
    { key: approval.id, class: "list-row" },
    h(
      "div",
      { class: "details" },
      isOwnPage
        ? null
        : h("div", { class: "line" }, issueHeading(id, approval.issue_title, { "data-item": true })),
      h(
        "div",
        { class: "line small" },
        h("span", {}, approval.stage),
        chip("waiting", GATES[approval.gate] ?? humanize(approval.gate), approval.gate),
        h("span", { class: "dim" }, relativeTime(approval.since)),
      ),
      h(
        "p",
        { class: `small ${isOwnPage ? "wrap" : "clamp3"}` },
        prose(truncate(approval.detail, isOwnPage ? 4000 : 600)),
      ),
      text ? h("p", { class: "small dim quote clamp3" }, truncate(text.trim().replaceAll(/\s+/g, " "), 400)) : null,
      isOwnPage
        ? null
        : h(
            "p",
            { class: "small links" },
            h("a", { href: `${issueHref(id)}#description`, "aria-label": `Whole text of ${subject}` }, "Whole text"),
            h("a", { href: `${issueHref(id)}#changes`, "aria-label": `Diff of ${subject}` }, "Diff"),
          ),
      h(
        "p",
        { class: "small dim" },
        approval.on_timeout === "approve" ? "Approved " : "Denied ",
        relativeTime(approval.until),
        " without an answer",
      ),
    ),
    h(
      "div",
      { class: "row actions" },
      button("Approve…", () => answerApproval(approval, true), {
        kind: "primary",
        "aria-label": `Approve ${subject}`,
      }),
      button("Deny…", () => answerApproval(approval, false), {
        kind: "danger-quiet",
        "aria-label": `Deny ${subject}`,
      }),
    ),
  );
}

/** Returns the row of an agent's question, with a button for each choice. */
export function questionRow(question, { isOwnPage = false } = {}) {
  const id = question.issue_id;
  const subject = `${truncate(id, 60)}, ${question.stage}`;
  return h(
    "li",
    { key: question.id, class: "list-row" },
    h(
      "div",
      { class: "details" },
      isOwnPage
        ? null
        : h("div", { class: "line" }, issueHeading(id, question.issue_title, { "data-item": true })),
      h(
        "div",
        { class: "line small" },
        h("span", {}, question.stage),
        chip("waiting", question.needs_person ? "needs a person" : "question", "question"),
        h("span", { class: "dim" }, relativeTime(question.since)),
      ),
      h(
        "p",
        { class: `small ${isOwnPage ? "wrap" : "clamp3"}` },
        prose(truncate(question.text, isOwnPage ? 4000 : 600)),
      ),
      question.timeout
        ? h(
            "p",
            { class: "small dim" },
            "Answered with “",
            truncate(question.timeout.answer, 200),
            "” ",
            relativeTime(question.timeout.at),
            " without an answer",
          )
        : null,
    ),
    h(
      "div",
      { class: "row actions" },
      (question.choices ?? []).map((choice, at) =>
        button(truncate(choice, 40), () => answerQuestion(question, at), {
          key: `choice ${at}`,
          "aria-label": `Answer ${subject} with ${truncate(choice, 200)}`,
        }),
      ),
      button("Answer…", () => answerQuestion(question), {
        kind: "primary",
        "aria-label": `Answer ${subject} with a text`,
      }),
    ),
  );
}

export function parkedRow(parked, title) {
  const id = parked.issue_id;
  return h(
    "li",
    { key: `${parked.run_id}/${parked.stage}`, class: "list-row" },
    h(
      "div",
      { class: "details" },
      h(
        "div",
        { class: "line" },
        issueHeading(id, title, { "data-item": true }),
      ),
      h(
        "div",
        { class: "line small" },
        h("span", {}, parked.stage),
        chip("parked", humanize(parked.reason), parked.reason),
        h("span", { class: "dim" }, relativeTime(parked.since)),
      ),
      h("p", { class: "small clamp3" }, prose(truncate(parked.detail, 600))),
      h("p", { class: "small dim" }, "Freed by: ", prose(parked.freed_by)),
    ),
    button("Retry", () => retry(id, { stage: parked.stage }), {
      kind: "primary-quiet",
      "aria-label": `Retry ${truncate(id, 60)}, ${parked.stage}`,
    }),
  );
}

/** Quotes an id for a shell, so that the command can be copied. */
const shellQuoted = (id) => (/^[\w.-]+$/.test(id) ? id : `'${id.replaceAll("'", "'\\''")}'`);

export function takenOverRow(held) {
  const id = held.issue_id;
  return h(
    "li",
    { key: held.session_id, class: "list-row" },
    h(
      "div",
      { class: "details" },
      h("div", { class: "line" }, issueHeading(id, held.issue_title, { "data-item": true })),
      h(
        "div",
        { class: "line small" },
        held.stage ? h("span", {}, held.stage) : null,
        chip("waiting", held.busy ? "agent is stopping" : "taken over", "taken_over"),
        h("span", { class: "dim" }, "by ", truncate(held.by, 100), " ", relativeTime(held.since)),
      ),
      h("p", { class: "small" }, "Open the session: ", h("code", {}, `vik takeover ${shellQuoted(id)} --open`)),
      h("p", { class: "small dim" }, "Nothing of it starts. The usage of the session is not counted."),
    ),
    button("Hand back", () => handBack(id), {
      kind: "primary-quiet",
      "aria-label": `Hand ${truncate(id, 60)} back`,
    }),
  );
}

/** Returns the cells of a worker. */
export const workerCells = (worker) => [
  worker.name,
  chip(worker.state, humanize(worker.state), worker.state),
  `${formatInteger(worker.running)} of ${formatInteger(worker.capacity)}`,
  truncate(worker.version, 60),
  worker.labels.length ? worker.labels.join(", ") : "–",
];

export function waitingRow(waiting, title) {
  return h(
    "li",
    { key: `${waiting.issue_id}/${waiting.stage}`, class: "list-row" },
    h(
      "div",
      { class: "details" },
      h(
        "div",
        { class: "line" },
        issueHeading(waiting.issue_id, title, { "data-item": true }),
      ),
      h(
        "div",
        { class: "line small" },
        h("span", {}, waiting.stage),
        chip("waiting", humanize(waiting.reason), waiting.reason),
        waiting.until ? h("span", {}, relativeTime(waiting.until)) : null,
      ),
      waiting.detail || waiting.attempts
        ? h(
            "p",
            { class: "small dim clamp2" },
            prose(
              [
                truncate(waiting.detail ?? "", 400),
                waiting.attempts ? `${pluralize(waiting.attempts, "attempt")} so far` : null,
              ]
                .filter(Boolean)
                .join(" · "),
            ),
          )
        : null,
    ),
    waiting.reason === "hand_over"
      ? button("Hand over now", () => retry(waiting.issue_id, { stage: waiting.stage }), {
          kind: "primary-quiet",
          "aria-label": `Hand over ${truncate(waiting.issue_id, 60)}, ${waiting.stage}`,
        })
      : null,
  );
}
