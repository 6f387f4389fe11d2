// One issue: where it stands, what holds it, and all that was done about it.

import { h } from "./dom.js";
import { coalesce, get, part } from "./api.js";
import { button, chip, empty, facts, failure, issueTitle, meter, section, sessionHref } from "./ui.js";
import { allTokens, duration, estimatedPart, tokens, usd, when, words } from "./format.js";
import { cancel, pause, resume, retry } from "./steer.js";
import { attemptRow, attemptTone, costOf } from "./attempts.js";
import { diffView, promptView, scriptsView } from "./evidence.js";
import { cut, webHost } from "./visible.js";

const DECISIONS_SHOWN = 30;

export function issuePage(id) {
  let redraw = () => {};
  let issue = null;
  let problem = null;
  let newest = null;
  let diff = null;
  let diffAsked = false;
  let attempts = "";
  let allDecisions = false;

  const load = coalesce(async () => {
    try {
      issue = await get(`issues/${part(id)}`);
      problem = null;
      redraw();
      await loadNewest();
    } catch (error) {
      problem = error;
    }
    redraw();
  }, 300);

  async function loadNewest() {
    const last = issue.runs
      .flatMap((run) => run.attempts)
      .reduce((a, b) => (a && a.started_at > b.started_at ? a : b), null);
    if (!last) return;
    const of = last.session_id;
    if (newest && newest.attempt.session_id !== of) {
      diff = null;
      if (diffAsked) loadDiff(of);
    }
    try {
      newest = await get(`sessions/${part(of)}`);
    } catch {
      // Old logs are removed after a time: the record of the attempt is all there is.
      newest = null;
    }
  }

  const loadDiff = async (session) => {
    diffAsked = true;
    try {
      diff = await get(`sessions/${part(session)}/diff`);
    } catch (error) {
      diff = error;
    }
    redraw();
  };

  function head() {
    const now = issue.now;
    const running = now?.stages.some((stage) => stage.state === "running");
    const parked =
      issue.runs.some((run) => run.state === "parked") || now?.stages.some((stage) => stage.hold?.reason === "parked");
    return [
      h("p", { class: "crumbs" }, h("a", { href: "/" }, "Board"), " / ", h("bdi", {}, cut(id, 80))),
      h(
        "div",
        { class: "board-head" },
        h(
          "div",
          { class: "grow" },
          h("h1", { tabindex: -1 }, now ? issueTitle(now.issue_title, 400) : h("bdi", {}, cut(id, 200))),
          now
            ? h(
                "p",
                { class: "meta" },
                h("span", {}, "State ", h("bdi", { class: "strong" }, `“${cut(now.issue_state, 80)}”`)),
                (now.labels ?? []).slice(0, 20).map((label) => h("span", { class: "dim" }, h("bdi", {}, cut(label, 40)))),
                webHost(now.issue_url)
                  ? h(
                      "a",
                      { href: now.issue_url, rel: "noopener noreferrer", target: "_blank" },
                      `Open on ${cut(webHost(now.issue_url), 60)}`,
                    )
                  : null,
                now.paused ? chip("paused") : null,
                now.present ? null : h("span", { class: "dim" }, "The last pull did not return this issue"),
              )
            : h("p", { class: "dim" }, "Only the history of this issue is known."),
        ),
        h(
          "div",
          { class: "row tools" },
          running ? button("Cancel", () => cancel(id), { kind: "danger-quiet" }) : null,
          parked
            ? h(
                "span",
                { class: "row retry" },
                h(
                  "label",
                  { class: "small" },
                  "Attempts ",
                  h("input", {
                    type: "number",
                    min: 1,
                    max: 99,
                    placeholder: "auto",
                    value: attempts,
                    on: {
                      input: (e) => {
                        attempts = e.target.value;
                      },
                    },
                  }),
                ),
                button("Retry", () => retry(id, { attempts: Number.parseInt(attempts, 10) || null }), { kind: "primary" }),
              )
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
        h("span", { class: "strong" }, words(hold.reason)),
        hold.since ? [" since ", when(hold.since)] : null,
        hold.until ? [", until ", when(hold.until)] : null,
      ),
      hold.detail ? h("p", { class: "wrap" }, cut(hold.detail, 2000)) : null,
      hold.freed_by ? h("p", { class: "dim" }, "Freed by: ", hold.freed_by) : null,
    );

  const stageRow = (stage) =>
    h(
      "li",
      { key: stage.stage, class: "hold-row" },
      h(
        "div",
        { class: "what" },
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
                `last attempt ${words(stage.last_outcome)}${stage.last_class ? ` (${words(stage.last_class)})` : ""}`,
              )
            : null,
        ),
        stage.hold ? holdView(stage.hold) : null,
      ),
      stage.session_id ? h("a", { class: "btn", href: sessionHref(stage.session_id) }, "Transcript") : null,
    );

  function standing(now) {
    return section(
      "Current state",
      { id: "stands" },
      now.hold ? h("div", { class: "notice tone-wait" }, holdView(now.hold)) : null,
      now.stages.length
        ? h("ul", { class: "rows" }, now.stages.map(stageRow))
        : now.hold
          ? null
          : empty("No stage handles this issue.", "No stage of the workflow takes issues in this state."),
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
        meter(`cost${estimatedPart(life.spent.estimated_usd)}`, life.spent.cost_usd, life.limit.usd, usd),
        meter("tokens", life.spent.tokens, life.limit.tokens, tokens),
        day && (day.limit.usd !== null || day.limit.tokens !== null)
          ? meter(
              `today, all issues${day.limit.usd !== null ? estimatedPart(day.spent.estimated_usd) : ""}`,
              ...(day.limit.usd !== null
                ? [day.spent.cost_usd, day.limit.usd, usd]
                : [day.spent.tokens, day.limit.tokens, tokens]),
            )
          : null,
      ),
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
        h("span", { class: "small dim" }, run.attempts[0] ? when(run.attempts[0].started_at) : null),
      ),
      h("ol", { class: "attempts" }, run.attempts.toReversed().map(attemptRow)),
    );

  const runs = () =>
    section(
      "Runs",
      { id: "runs", count: issue.runs.length },
      issue.runs.length
        ? h("ol", { class: "timeline" }, issue.runs.toReversed().map(runView))
        : empty("No attempts yet.", "Attempts are listed here after a stage has started one."),
    );

  function latest() {
    if (!newest) return null;
    const session = newest.attempt.session_id;
    return section(
      "Newest attempt",
      { id: "newest", tools: h("a", { class: "btn", href: sessionHref(session) }, "Transcript") },
      facts(
        ["Stage", newest.stage],
        ["Agent", newest.agent, newest.model ? ` · ${newest.model}` : ""],
        [
          "Took",
          newest.attempt.duration_ms === null
            ? when(newest.attempt.started_at, "elapsed")
            : duration(newest.attempt.duration_ms),
        ],
        ["Tokens", tokens(allTokens(newest.attempt.usage))],
        ["Cost", costOf(newest.attempt)],
      ),
      h("details", { class: "fold" }, h("summary", {}, "Prompt"), promptView(newest.prompt)),
      h(
        "details",
        { class: "fold" },
        h("summary", {}, "Scripts", h("span", { class: "count num" }, newest.scripts.length)),
        scriptsView(newest.scripts),
      ),
      h(
        "details",
        {
          class: "fold",
          on: {
            toggle: (event) => event.target.open && !diff && event.target === event.currentTarget && loadDiff(session),
          },
        },
        h("summary", {}, "Diff of the workspace"),
        diffView(diff),
      ),
    );
  }

  function decisions() {
    const all = issue.decisions.toReversed();
    const shown = allDecisions ? all : all.slice(0, DECISIONS_SHOWN);
    return section(
      "Decisions",
      { id: "decisions", count: all.length },
      all.length
        ? null
        : empty("No decisions yet.", "Starts, waits, parked stages and retries are listed here with their reasons."),
      h(
        "ul",
        { class: "decisions small" },
        shown.map((decision, at) =>
          h(
            "li",
            { key: `${all.length - at}` },
            h("span", { class: "num dim" }, when(decision.at)),
            h("span", { class: "strong" }, words(decision.kind)),
            h(
              "span",
              { class: "wrap" },
              decision.stage ? h("span", { class: "dim" }, `${decision.stage}: `) : null,
              cut(decision.detail, 1000),
            ),
          ),
        ),
      ),
      shown.length < all.length
        ? button(`Show ${all.length - shown.length} more`, () => {
            allDecisions = true;
            redraw();
          })
        : null,
    );
  }

  return {
    title: id,
    enter(draw) {
      redraw = draw;
      load(0);
    },
    fact(type, fact) {
      // A running session tells of itself several times a second: its page follows that, not this one.
      const mine =
        type === "session"
          ? fact.issue_id === id && !issue?.runs.some((run) => run.attempts.at(-1)?.session_id === fact.session_id)
          : ["reset", "state", "pulled"].includes(type) || fact?.issue_id === id;
      if (mine && type !== "loaded" && type !== "link") load();
    },
    view() {
      if (!issue)
        return [
          h("h1", { tabindex: -1 }, h("bdi", {}, cut(id, 200))),
          problem ? failure(problem, () => load(0)) : h("p", { class: "dim" }, "Loading…"),
        ];
      return [
        head(),
        problem ? failure(problem, () => load(0)) : null,
        issue.now ? h("div", { class: "pair", key: "now" }, standing(issue.now), limits(issue.now)) : null,
        runs(),
        latest(),
        decisions(),
      ];
    },
  };
}
