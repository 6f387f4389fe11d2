// The page of an issue: its state, its hold, its runs and its decisions.

import { h } from "./dom.js";
import { coalesce, encodeSegment, get } from "./api.js";
import {
  button,
  chip,
  emptyState,
  errorNotice,
  issueName,
  issueTitle,
  meter,
  propertyList,
  section,
  sessionHref,
} from "./ui.js";
import {
  absoluteTime,
  estimateSuffix,
  formatDuration,
  formatTokens,
  formatUsd,
  humanize,
  relativeTime,
  totalTokens,
} from "./format.js";
import { cancel, handBack, pause, resume, retry, runAgain, takeOver } from "./steer.js";
import { store } from "./store.js";
import { attemptCost, attemptRow, attemptTone, runCost } from "./attempts.js";
import { approvalRow, questionRow } from "./board_rows.js";
import { changesSection, descriptionSection } from "./issue_about.js";
import { codeWords, prose } from "./prose.js";
import { promptView, stepsView } from "./evidence.js";
import { issueMessages } from "./messages.js";
import { truncate, webHost } from "./visible.js";

const MAX_DECISIONS_SHOWN = 30;
/** The holds of issues that need no more work. */
const FINISHED = new Set(["no_stage", "terminal"]);

export function issuePage(id) {
  let redraw = () => {};
  let issue = null;
  let loadError = null;
  let newestSession = null;
  let diff = null;
  let showsChanges = location.hash === "#changes";
  /** Whether a person has unfolded or folded the text; `null` until then. */
  let showsText = location.hash === "#description" ? true : null;
  /** The section that the address names. The page moves to it once it is there. */
  let targetSection = ["#changes", "#description"].includes(location.hash) ? location.hash.slice(1) : null;
  let attemptCount = "";
  let showsAllDecisions = false;

  const messages = issueMessages(id, () => redraw());

  const load = coalesce(async () => {
    try {
      issue = await get(`issues/${encodeSegment(id)}`);
      loadError = null;
      redraw();
      await loadNewest();
    } catch (error) {
      loadError = error;
    }
    redraw();
  }, 300);

  async function loadNewest() {
    const last = issue.runs
      .flatMap((run) => run.attempts)
      .reduce((a, b) => (a && a.started_at > b.started_at ? a : b), null);
    if (!last) return;
    const sessionId = last.session_id;
    try {
      newestSession = await get(`sessions/${encodeSegment(sessionId)}`);
    } catch {
      // Old logs are removed: only the record of the attempt remains.
      newestSession = null;
    }
  }

  const loadDiff = coalesce(async () => {
    try {
      diff = await get(`issues/${encodeSegment(id)}/diff`);
    } catch (error) {
      diff = error;
    }
    redraw();
  }, 300);

  function openChanges(isOpen) {
    if (isOpen === showsChanges) return;
    showsChanges = isOpen;
    if (isOpen) loadDiff(0);
    redraw();
  }

  const approvals = () => store.status?.approvals?.filter((approval) => approval.issue_id === id) ?? [];

  function approvalList() {
    const pending = approvals();
    if (!pending.length) return null;
    return section(
      "Waits for your answer",
      { id: "approvals", count: pending.length },
      h("ul", { class: "rows" }, pending.map((approval) => approvalRow(approval, { isOwnPage: true }))),
    );
  }

  function questionList() {
    const open = store.status?.questions?.filter((question) => question.issue_id === id) ?? [];
    if (!open.length) return null;
    return section(
      "Question of the agent",
      { id: "questions", count: open.length },
      h("ul", { class: "rows" }, open.map((question) => questionRow(question, { isOwnPage: true }))),
    );
  }

  function description() {
    // Who approves a start reads the whole text first.
    const isOpen = showsText ?? approvals().some((approval) => approval.gate === "before");
    return descriptionSection(issue.issue ?? null, isOpen, () => {
      showsText = !isOpen;
      redraw();
    });
  }

  function head() {
    const now = issue.now;
    const title = now?.issue_title || issue.issue_title;
    const running = now?.stages.some((stage) => stage.state === "running");
    const parked =
      issue.runs.some((run) => run.state === "parked") || now?.stages.some((stage) => stage.hold?.reason === "parked");
    const lastRun = issue.runs.at(-1);
    const isHandOverLeft =
      lastRun && lastRun.state !== "ended" && Boolean(lastRun.attempts.at(-1)?.hand_over_failure) && !running;
    return [
      h("p", { class: "crumbs" }, h("a", { href: "/" }, "Board"), " / ", h("bdi", {}, issueName(id))),
      h(
        "div",
        { class: "page-head" },
        h(
          "div",
          { class: "grow" },
          h("h1", { tabindex: -1 }, title ? issueTitle(title, 400) : h("bdi", {}, issueName(id, 200))),
          now
            ? h(
                "p",
                { class: "meta" },
                h("span", {}, "State ", h("bdi", { class: "strong" }, `“${truncate(now.issue_state, 80)}”`)),
                (now.labels ?? [])
                  .slice(0, 20)
                  .map((label) => h("span", { class: "dim" }, h("bdi", {}, truncate(label, 40)))),
                webHost(now.issue_url)
                  ? h(
                      "a",
                      { href: now.issue_url, rel: "noopener noreferrer", target: "_blank" },
                      `Open on ${truncate(webHost(now.issue_url), 60)}`,
                    )
                  : null,
                now.paused ? chip("paused") : null,
                now.present ? null : h("span", { class: "dim" }, "Not in the last pull"),
              )
            : h("p", { class: "dim" }, "No stage handles this issue now. Its history is below."),
        ),
        h(
          "div",
          { class: "row tools" },
          running ? button("Cancel", () => cancel(id), { kind: "danger-quiet" }) : null,
          isHandOverLeft
            ? [
                button("Hand over now", () => retry(id), { kind: "primary" }),
                button("Run the agent again", () => retry(id, { agent: true })),
              ]
            : null,
          parked && !isHandOverLeft
            ? h(
                "span",
                { class: "row retry" },
                h(
                  "label",
                  { class: "small" },
                  "More attempts ",
                  h("input", {
                    type: "number",
                    min: 1,
                    max: 99,
                    placeholder: "auto",
                    title: "How many attempts the stage gets. Empty: as many as the workflow allows.",
                    value: attemptCount,
                    on: {
                      input: (e) => {
                        attemptCount = e.target.value;
                      },
                    },
                  }),
                ),
                button("Retry", () => retry(id, { attempts: Number.parseInt(attemptCount, 10) || null }), {
                  kind: "primary",
                }),
              )
            : null,
          now
            ? now.hold?.reason === "taken_over"
              ? button("Hand back", () => handBack(id), { kind: "primary" })
              : button("Take over", () => takeOver(id))
            : null,
          now?.paused ? button("Resume", () => resume(id)) : button("Pause", () => pause(id)),
        ),
      ),
    ];
  }

  const holdView = (hold) =>
    h(
      "div",
      { class: "hold" },
      h(
        "p",
        {},
        h("span", { class: "strong" }, codeWords(hold.reason)),
        hold.since ? [" since ", relativeTime(hold.since)] : null,
        hold.until ? [", until ", relativeTime(hold.until)] : null,
      ),
      hold.detail ? h("p", { class: "wrap" }, prose(truncate(hold.detail, 2000))) : null,
      hold.freed_by ? h("p", { class: "dim" }, "Freed by: ", prose(hold.freed_by)) : null,
    );

  const stageRow = (stage) =>
    h(
      "li",
      { key: stage.stage, class: "list-row" },
      h(
        "div",
        { class: "details" },
        h(
          "div",
          { class: "line" },
          h("span", { class: "strong" }, stage.stage),
          chip(stage.hold?.reason === "parked" ? "parked" : stage.state),
          h("span", { class: "small dim" }, `attempt ${stage.attempts} of ${stage.max_attempts}`),
          stage.last_outcome
            ? h(
                "span",
                { class: "small dim" },
                `last attempt ${humanize(stage.last_outcome)}`,
                stage.last_class ? ` (${humanize(stage.last_class)})` : "",
              )
            : null,
        ),
        stage.hold ? holdView(stage.hold) : null,
      ),
      stage.session_id ? h("a", { class: "btn", href: sessionHref(stage.session_id) }, "Transcript") : null,
    );

  function currentState(now) {
    return section(
      "Current state",
      { id: "current-state" },
      now.hold ? h("div", { class: `notice tone-${FINISHED.has(now.hold.reason) ? "off" : "wait"}` }, holdView(now.hold)) : null,
      now.stages.length
        ? h("ul", { class: "rows" }, now.stages.map(stageRow))
        : now.hold
          ? null
          : emptyState("No stage handles this issue.", "No stage of the workflow takes issues in this state."),
    );
  }

  const limits = ({ life, day }) =>
    section(
      "Totals of all attempts",
      { id: "life" },
      h(
        "div",
        { class: "meters" },
        meter("attempts", life.attempts, life.max_attempts, String),
        meter(`cost${estimateSuffix(life.spent.estimated_usd)}`, life.spent.cost_usd, life.limit.usd, formatUsd),
        meter("tokens", life.spent.tokens, life.limit.tokens, formatTokens),
        day && (day.limit.usd !== null || day.limit.tokens !== null)
          ? meter(
              `today (UTC), all issues${day.limit.usd !== null ? estimateSuffix(day.spent.estimated_usd) : ""}`,
              ...(day.limit.usd !== null
                ? [day.spent.cost_usd, day.limit.usd, formatUsd]
                : [day.spent.tokens, day.limit.tokens, formatTokens]),
            )
          : null,
      ),
    );

  /** Returns whether a run is the latest one of its stage, has ended, and its stage is in the workflow. */
  function canRunAgain(run) {
    const stages = store.status?.workflow?.stages ?? [];
    return (
      run.state === "ended" &&
      issue.runs.findLast((other) => other.stage === run.stage) === run &&
      stages.some((stage) => stage.stage === run.stage)
    );
  }

  const runAgainButton = (run) =>
    button(
      "Run again…",
      () =>
        runAgain(id, {
          stage: run.stage,
          agent: store.status.workflow.stages.find((stage) => stage.stage === run.stage)?.agent,
          cost: runCost(run),
        }),
      { kind: "small", "aria-label": `Run again: ${truncate(run.stage, 60)}` },
    );

  const runView = (run) =>
    h(
      "li",
      { key: run.run_id, class: `run ${attemptTone(run.attempts.at(-1)?.outcome, run.state)}` },
      h(
        "div",
        { class: "line" },
        h("span", { class: "strong" }, run.stage),
        chip(run.state === "ended" && run.outcome ? run.outcome : run.state),
        h("span", { class: "small dim" }, run.attempts[0] ? relativeTime(run.attempts[0].started_at) : null),
        h("span", { class: "grow" }),
        canRunAgain(run) ? runAgainButton(run) : null,
      ),
      h("ol", { class: "attempts" }, run.attempts.toReversed().map(attemptRow)),
    );

  const runList = () =>
    section(
      "Runs",
      { id: "runs", count: issue.runs.length },
      issue.runs.length
        ? h("ol", { class: "timeline" }, issue.runs.toReversed().map(runView))
        : emptyState("No attempts yet.", "Attempts are listed here after a stage has started one."),
    );

  function newestAttempt() {
    if (!newestSession) return null;
    const session = newestSession.attempt.session_id;
    return section(
      "Latest attempt",
      { id: "newest", tools: h("a", { class: "btn", href: sessionHref(session) }, "Transcript") },
      propertyList(
        ["Stage", newestSession.stage],
        ["Agent", newestSession.agent, newestSession.model ? ` · ${newestSession.model}` : ""],
        [
          "Duration",
          newestSession.attempt.duration_ms === null
            ? relativeTime(newestSession.attempt.started_at, "elapsed")
            : formatDuration(newestSession.attempt.duration_ms),
        ],
        ["Tokens", formatTokens(totalTokens(newestSession.attempt.usage))],
        ["Cost", attemptCost(newestSession.attempt)],
      ),
      h("details", { class: "collapsible" }, h("summary", {}, "Prompt"), promptView(newestSession.prompt)),
      h(
        "details",
        { class: "collapsible" },
        h("summary", {}, "Steps"),
        stepsView(newestSession.scripts, newestSession.attempt),
      ),
    );
  }

  function decisions() {
    const all = issue.decisions.toReversed();
    const shown = showsAllDecisions ? all : all.slice(0, MAX_DECISIONS_SHOWN);
    return section(
      "Decisions",
      { id: "decisions", count: all.length, hint: "newest first" },
      all.length
        ? null
        : emptyState(
            "No decisions yet.",
            "Starts, waits, parked stages and retries are listed here with their reasons.",
          ),
      h(
        "ul",
        { class: "decisions small" },
        shown.map((decision, index) =>
          h(
            "li",
            { key: `${all.length - index}` },
            h("span", { class: "num dim" }, absoluteTime(decision.at), " · ", relativeTime(decision.at)),
            h("span", { class: "strong" }, codeWords(decision.kind)),
            h(
              "span",
              { class: "wrap" },
              decision.stage ? h("span", { class: "dim" }, `${decision.stage}: `) : null,
              prose(truncate(decision.detail, 1000)),
            ),
          ),
        ),
      ),
      shown.length < all.length
        ? button(`Show ${all.length - shown.length} more`, () => {
            showsAllDecisions = true;
            redraw();
          })
        : null,
    );
  }

  return {
    title: issueName(id),
    mount(scheduleRender) {
      redraw = scheduleRender;
      load(0);
      messages.load(0);
      if (showsChanges) loadDiff(0);
    },
    onRender() {
      if (!issue || !targetSection) return;
      const target = document.getElementById(targetSection);
      targetSection = null;
      target?.scrollIntoView();
      target?.querySelector("h2")?.focus({ preventScroll: true });
    },
    onFact(type, fact) {
      // Facts of a running session arrive several times a second: only the page of the session shows them.
      const isRelevant =
        type === "session"
          ? fact.issue_id === id && !issue?.runs.some((run) => run.attempts.at(-1)?.session_id === fact.session_id)
          : ["reset", "state", "pulled"].includes(type) || fact?.issue_id === id;
      if (!isRelevant || type === "loaded" || type === "connection") return;
      load();
      messages.load();
      if (showsChanges && ["reset", "session_ended", "issue"].includes(type)) loadDiff();
    },
    view() {
      const title = issue?.now?.issue_title || issue?.issue_title;
      this.title = title ? `${issueName(id)} ${title}` : issueName(id);
      if (!issue)
        return [
          h("h1", { tabindex: -1 }, h("bdi", {}, issueName(id, 200))),
          loadError ? errorNotice(loadError, () => load(0)) : h("p", { class: "dim" }, "Loading…"),
        ];
      return [
        head(),
        loadError ? errorNotice(loadError, () => load(0)) : null,
        approvalList(),
        questionList(),
        messages.view(),
        description(),
        issue.now ? h("div", { class: "two-columns", key: "now" }, currentState(issue.now), limits(issue.now)) : null,
        changesSection(diff, showsChanges, openChanges),
        runList(),
        newestAttempt(),
        decisions(),
      ];
    },
  };
}
