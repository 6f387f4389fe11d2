// The board: running sessions, issues that need a person, the stage of each issue, and the costs of today.

import { h } from "./dom.js";
import { coalesce, encodeSegment, get } from "./api.js";
import { store } from "./store.js";
import { button, emptyState, errorNotice, meter, section, table } from "./ui.js";
import { estimateSuffix, formatInteger, formatTokens, formatUsd, now, pluralize, relativeTime } from "./format.js";
import { prose } from "./prose.js";
import { drain, pause, refresh, resume } from "./steer.js";
import { approvalRow, liveRow, parkedRow, questionRow, takenOverRow, waitingRow, workerCells } from "./board_rows.js";
import { doneColumn, issuesWithoutStage, stageColumns } from "./board_stages.js";
import { spendPlot, throughputPlot } from "./plots.js";

const PAGE_SIZE = 200;
/** The maximum number of issues that are loaded; a tracker may have far more. */
const MAX_ISSUES = 1000;
const MAX_WAITING_SHOWN = 12;
/** The maximum number of issues whose texts are loaded for their approvals. */
const MAX_TEXTS = 10;
/** The period of the issues that the board shows as done. */
const DONE_SINCE = "7d";

/** Returns the date of today by UTC, as the limits of a day have it. */
const today = () => new Date(now()).toISOString().slice(0, 10);

export function boardPage() {
  let redraw = () => {};
  let issues = [];
  let total = 0;
  let hasMore = false;
  let wantedCount = PAGE_SIZE;
  let query = "";
  let report = null;
  /** The latest successful run of each issue, newest first. */
  let succeeded = [];
  let loadError = null;
  let showsAllWaiting = false;
  const expandedStages = new Set();
  // The status can lack the titles of parked and waiting stages.
  const titles = new Map();
  /** The texts of issues by the id of their pending approval: the status does not contain them. */
  const texts = new Map();
  const titleOf = (view) => view.issue_title || titles.get(view.issue_id);

  const loadIssues = coalesce(async () => {
    try {
      const loaded = [];
      let after = null;
      let page;
      do {
        const params = new URLSearchParams({ limit: String(PAGE_SIZE) });
        if (after !== null) params.set("after", after);
        if (query) params.set("q", query);
        page = await get(`issues?${params}`);
        loaded.push(...page.issues);
        after = page.next;
      } while (after !== null && after !== undefined && loaded.length < wantedCount);
      issues = loaded;
      for (const issue of loaded) titles.set(issue.issue_id, issue.issue_title);
      total = page.total;
      hasMore = (after ?? null) !== null;
      loadError = null;
    } catch (error) {
      loadError = error;
    }
    redraw();
  }, 400);

  const loadReport = coalesce(async () => {
    try {
      report = await get("report?since=24h");
    } catch {
      // The plots keep their last values; a banner shows why the daemon cannot be reached.
    }
    redraw();
  }, 2000);

  const loadSucceeded = coalesce(async () => {
    try {
      const { runs } = await get(`runs?outcome=succeeded&since=${DONE_SINCE}&limit=${PAGE_SIZE}`);
      const latest = new Map();
      for (const run of runs) if (!latest.has(run.issue_id)) latest.set(run.issue_id, run);
      succeeded = [...latest.values()].filter((run) => run.state === "ended");
    } catch {
      // The column keeps its last issues; a banner shows why the daemon cannot be reached.
    }
    redraw();
  }, 1000);

  /** Loads the texts of the issues that wait for an approval. */
  function loadTexts() {
    for (const { id, issue_id: issueId } of store.status?.approvals?.slice(0, MAX_TEXTS) ?? []) {
      if (texts.has(id)) continue;
      texts.set(id, "");
      get(`issues/${encodeSegment(issueId)}`)
        .then(({ issue }) => {
          texts.set(id, issue?.description ?? "");
          redraw();
        })
        // The row is complete without the text, and links to it.
        .catch(() => texts.delete(id));
    }
  }

  /** Returns the runs of the issues that have succeeded and that no stage takes now. */
  function doneRuns(all, stages) {
    const names = new Set(stages.map((stage) => stage.stage));
    const busy = new Set(
      all.filter((issue) => issue.stages.some((view) => names.has(view.stage))).map((issue) => issue.issue_id),
    );
    const text = query.toLowerCase();
    return succeeded.filter(
      (run) => !busy.has(run.issue_id) && `${run.issue_id} ${run.issue_title}`.toLowerCase().includes(text),
    );
  }

  const controls = (status) =>
    h(
      "div",
      { class: "row tools" },
      status.paused
        ? button("Resume", () => resume(), { kind: "primary" })
        : button("Pause", () => pause(), { title: "Start no new attempts; running attempts continue" }),
      button("Refresh", refresh, { title: "Reload the workflow and pull the issues now" }),
      status.state === "running"
        ? button("Stop when idle…", drain, { title: "Start no new attempts, and exit when the running ones have ended" })
        : null,
    );

  function pullView({ last_pull: pull, pulls, pid }) {
    if (!pull) return h("span", {}, pid ? "No pull has finished yet" : "Not running");
    if (pull.ok) {
      return h(
        "span",
        {},
        "Pulled ",
        relativeTime(pull.at),
        h(
          "span",
          { class: "dim" },
          `: ${pluralize(pull.issues, "issue")}${pull.skipped ? `, ${pull.skipped} skipped` : ""}`,
        ),
      );
    }
    const repetition = pulls?.failed_in_a_row > 1 ? ` (${pulls.failed_in_a_row} in a row)` : "";
    return h(
      "span",
      { class: "bad-text" },
      h("strong", {}, `The pull failed${repetition} `),
      relativeTime(pull.at),
      pull.next_at ? [", next pull ", relativeTime(pull.next_at)] : null,
      pull.error ? h("span", { class: "clamp2" }, prose(pull.error)) : null,
      " ",
      h("a", { href: "/pulls" }, "All pulls"),
    );
  }

  const daemonView = (status) =>
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        { class: "grow" },
        h("h1", { tabindex: -1 }, "Board"),
        h(
          "p",
          { class: "meta" },
          pullView(status),
          status.started_at ? h("span", {}, "up ", relativeTime(status.started_at, "elapsed")) : null,
          status.webhooks ? h("span", { class: "dim" }, `webhooks at ${status.webhooks.address}`) : null,
          h("span", { class: "dim path", title: status.workflow_path }, h("bdi", {}, status.workflow_path)),
          status.version ? h("span", { class: "dim" }, `vik ${status.version}`) : null,
        ),
      ),
      controls(status),
    );

  function tileList(status) {
    const waiting = status.waiting.length + (status.waiting_more ?? 0);
    const tile = (href, n, label, tone, title = null) =>
      h(
        "a",
        { key: label, class: `tile ${n ? `tone-${tone}` : ""}`, href, title },
        h("span", { class: "big num" }, formatInteger(n)),
        h("span", {}, label),
      );
    return h(
      "div",
      { class: "tiles", role: "group", "aria-label": "Summary" },
      tile("#live", status.sessions.length, "running", "run"),
      status.approvals?.length ? tile("#approvals", status.approvals.length, "for you", "bad") : null,
      status.questions?.length ? tile("#questions", status.questions.length, "questions", "bad") : null,
      tile("#parked", status.parked.length, "parked", "bad"),
      tile("#waiting", waiting, "waiting", "wait"),
      tile(`/history?outcome=succeeded&since=${today()}`, doneToday(), "done today (UTC)", "good"),
      status.day ? h("a", { class: "tile wide", href: "#today" }, dayMeters(status.day)) : null,
    );
  }

  /** Returns the number of issues whose latest successful run has ended today. */
  const doneToday = () => succeeded.filter((run) => (run.attempts.at(-1)?.ended_at ?? "") >= today()).length;

  const dayMeters = (day) => [
    meter(`spent today (UTC)${estimateSuffix(day.spent.estimated_usd)}`, day.spent.cost_usd, day.limit.usd, formatUsd),
    meter("tokens today (UTC)", day.spent.tokens, day.limit.tokens, formatTokens),
  ];

  function waitingView(status) {
    const shown = showsAllWaiting ? status.waiting : status.waiting.slice(0, MAX_WAITING_SHOWN);
    const hidden = status.waiting.length - shown.length;
    const count = status.waiting.length + (status.waiting_more ?? 0);
    return section(
      "Waiting",
      { id: "waiting", count },
      count === 0
        ? emptyState(
            "No waiting issues.",
            "Issues that wait for a slot, a backoff, a blocker or a limit are listed here.",
          )
        : null,
      h(
        "ul",
        { class: "rows" },
        shown.map((waiting) => waitingRow(waiting, titleOf(waiting))),
      ),
      hidden > 0
        ? button(`Show ${hidden} more`, () => {
            showsAllWaiting = true;
            redraw();
          })
        : null,
      status.waiting_more
        ? h("p", { class: "dim" }, `and ${formatInteger(status.waiting_more)} more that are not listed`)
        : null,
    );
  }

  function stagesView(status) {
    const filter = h("input", {
      type: "search",
      placeholder: "Filter by id or title",
      "aria-label": "Filter the issues",
      "data-search": true,
      on: {
        input: (event) => {
          query = event.target.value;
          loadIssues();
        },
      },
    });
    const stages = status.workflow?.stages ?? [];
    const all = query ? issues : withIssuesOfStatus(issues, status, hasMore);
    const done = doneRuns(all, stages);
    return section(
      "Stages",
      { id: "stages", count: total, tools: filter },
      loadError ? errorNotice(loadError, () => loadIssues(0)) : null,
      !loadError && total === 0
        ? query
          ? emptyState("No matching issues.", "The filter searches ids and titles.")
          : emptyState(
              "The tracker has no issues.",
              "Create one, for example with ",
              h("code", {}, "vik issue new"),
              ", or check the output of ",
              h("code", {}, "issues.pull.command"),
              ".",
            )
        : null,
      total > 0 || done.length
        ? stageColumns(
            stages,
            all,
            expandedStages,
            redraw,
            doneColumn(done, `/history?outcome=succeeded&since=${DONE_SINCE}`),
          )
        : null,
      issuesWithoutStage(stages, all, new Set(done.map((run) => run.issue_id))),
      hasMore
        ? h(
            "p",
            { class: "row" },
            h(
              "span",
              { class: "dim" },
              `${formatInteger(issues.length)} of ${formatInteger(total)} issues are loaded.`,
            ),
            wantedCount < MAX_ISSUES
              ? button("Load more", () => {
                  wantedCount += PAGE_SIZE;
                  loadIssues(0);
                })
              : h("span", {}, "Use the filter to find other issues."),
          )
        : null,
    );
  }

  return {
    title: "Board",
    mount(scheduleRender) {
      redraw = scheduleRender;
      loadIssues(0);
      loadReport(0);
      loadSucceeded(0);
      loadTexts();
    },
    onFact(type) {
      if (type === "session") return;
      if (type === "loaded") loadTexts();
      if (["reset", "state", "pulled", "issue", "session_ended"].includes(type)) loadIssues();
      if (["reset", "issue", "session_ended"].includes(type)) loadSucceeded();
      if (type === "session_ended" || type === "reset") loadReport();
    },
    unmount() {
      redraw = () => {};
    },
    view() {
      const { status, error: stateError } = store;
      if (!status)
        return [
          h("h1", { tabindex: -1 }, "Board"),
          stateError ? errorNotice(stateError, () => store.reload(0)) : h("p", { class: "dim" }, "Loading…"),
        ];
      return [
        daemonView(status),
        tileList(status),
        status.approvals?.length
          ? section(
              "Pending approvals",
              { id: "approvals", count: status.approvals.length },
              h(
                "ul",
                { class: "rows" },
                status.approvals.map((approval) => approvalRow(approval, { text: texts.get(approval.id) })),
              ),
            )
          : null,
        status.questions?.length
          ? section(
              "Questions of agents",
              { id: "questions", count: status.questions.length },
              h("ul", { class: "rows" }, status.questions.map((question) => questionRow(question))),
            )
          : null,
        status.taken_over?.length
          ? section(
              "Taken over",
              { id: "taken-over", count: status.taken_over.length, hint: "start when they are handed back" },
              h("ul", { class: "rows" }, status.taken_over.map(takenOverRow)),
            )
          : null,
        section(
          "Live sessions",
          { id: "live", count: status.sessions.length },
          status.sessions.length
            ? null
            : emptyState(
                "No running sessions.",
                status.paused
                  ? "The daemon is paused. Resume it to start attempts."
                  : "An issue in the state of a stage starts automatically after the next pull.",
              ),
          h("ul", { class: "rows" }, status.sessions.map(liveRow)),
        ),
        status.workers?.length
          ? section(
              "Workers",
              { id: "workers", count: status.workers.length },
              table("Workers", ["Name", "State", "Running", "Version", "Labels"], status.workers.map(workerCells)),
            )
          : null,
        h(
          "div",
          {
            // An empty list beside a full one would leave half of the row empty.
            class: `two-columns${Boolean(status.parked.length) !== Boolean(status.waiting.length) ? " stacked" : ""}`,
            key: "two-columns",
          },
          section(
            "Parked",
            {
              id: "parked",
              count: status.parked.length,
              hint: status.parked.length ? "do not start automatically" : null,
            },
            status.parked.length
              ? null
              : emptyState(
                  "No parked issues.",
                  "Issues that Vik gave up on are listed here, with the reason and a button to retry them.",
                ),
            h(
              "ul",
              { class: "rows" },
              status.parked.map((parked) => parkedRow(parked, titleOf(parked))),
            ),
          ),
          waitingView(status),
        ),
        stagesView(status),
        section(
          "Today",
          { id: "today", hint: status.day ? `${status.day.date} (UTC)` : null },
          report
            ? h("div", { class: "plots" }, throughputPlot(report), spendPlot(report))
            : h("p", { class: "dim" }, "Loading…"),
        ),
      ];
    },
  };
}

/** Adds the issues of the status that are on no loaded page. */
function withIssuesOfStatus(issues, status, hasMore) {
  if (!hasMore) return issues;
  const known = new Set(issues.map((issue) => issue.issue_id));
  const added = new Map();
  const addView = (view, state, hold) => {
    if (known.has(view.issue_id)) return;
    if (!added.has(view.issue_id)) {
      added.set(view.issue_id, {
        issue_id: view.issue_id,
        issue_title: view.issue_title ?? "",
        issue_state: "",
        present: true,
        paused: false,
        hold: null,
        stages: [],
      });
    }
    added
      .get(view.issue_id)
      .stages.push({
        stage: view.stage,
        state,
        hold,
        attempts: view.attempts ?? view.attempt ?? 0,
        session_id: view.session_id ?? null,
      });
  };
  for (const session of status.sessions) addView(session, "running", null);
  for (const parked of status.parked) addView(parked, "held", parked);
  for (const waiting of status.waiting) addView(waiting, "waiting", waiting);
  return [...issues, ...added.values()];
}
