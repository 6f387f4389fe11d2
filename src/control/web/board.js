// The board: what runs, what needs a person, where each issue stands, what today costs.

import { h } from "./dom.js";
import { coalesce, get } from "./api.js";
import { store } from "./store.js";
import { button, empty, failure, meter, section } from "./ui.js";
import { estimatedPart, many, tokens, usd, when, whole } from "./format.js";
import { drain, pause, refresh, resume } from "./steer.js";
import { approvalRow, liveRow, parkedRow, waitingRow } from "./board_rows.js";
import { stageColumns, noStage } from "./board_stages.js";
import { spendPlot, throughputPlot } from "./plots.js";

const PAGE = 200;
/** So many issues are kept current; a tracker may have far more. */
const MOST = 1000;
const WAITING_SHOWN = 12;

export function boardPage() {
  let redraw = () => {};
  let issues = [];
  let total = 0;
  let more = false;
  let wanted = PAGE;
  let query = "";
  let report = null;
  let problem = null;
  let allWaiting = false;
  const open = new Set();
  // The state names what is parked and waits by its id alone.
  const titles = new Map();
  const titleOf = (view) => view.issue_title ?? titles.get(view.issue_id);

  const loadIssues = coalesce(async () => {
    try {
      const found = [];
      let after = null;
      let page;
      do {
        const ask = new URLSearchParams({ limit: String(PAGE) });
        if (after !== null) ask.set("after", after);
        if (query) ask.set("q", query);
        page = await get(`issues?${ask}`);
        found.push(...page.issues);
        after = page.next;
      } while (after !== null && after !== undefined && found.length < wanted);
      issues = found;
      for (const issue of found) titles.set(issue.issue_id, issue.issue_title);
      total = page.total;
      more = (after ?? null) !== null;
      problem = null;
    } catch (error) {
      problem = error;
    }
    redraw();
  }, 400);

  const loadReport = coalesce(async () => {
    try {
      report = await get("report?since=24h");
    } catch {
      // The plots stay as they were; the state tells what is wrong.
    }
    redraw();
  }, 2000);

  const steerBar = (status) =>
    h(
      "div",
      { class: "row tools" },
      status.paused
        ? button("Resume", () => resume(), { kind: "primary" })
        : button("Pause", () => pause(), { title: "Start no new attempts; running attempts continue" }),
      button("Refresh", refresh, { title: "Reload the workflow and pull the issues now" }),
      status.state === "running"
        ? button("Drain…", drain, { title: "Start no new attempts, and exit when the running ones have ended" })
        : null,
    );

  function pullView({ last_pull: pull, pulls, pid }) {
    if (!pull) return h("span", {}, pid ? "No pull has finished yet" : "Not running");
    if (pull.ok) {
      return h(
        "span",
        {},
        "Pulled ",
        when(pull.at),
        h(
          "span",
          { class: "dim" },
          `: ${many(pull.issues, "issue")}${pull.skipped ? `, ${pull.skipped} skipped` : ""}`,
        ),
      );
    }
    const row = pulls?.failed_in_a_row > 1 ? ` (${pulls.failed_in_a_row} in a row)` : "";
    return h(
      "span",
      { class: "bad-text" },
      h("strong", {}, `The pull failed${row} `),
      when(pull.at),
      pull.error ? h("span", { class: "clamp2" }, pull.error) : null,
    );
  }

  const daemonView = (status) =>
    h(
      "div",
      { class: "board-head" },
      h(
        "div",
        { class: "grow" },
        h("h1", { tabindex: -1 }, "Board"),
        h(
          "p",
          { class: "meta" },
          pullView(status),
          status.started_at ? h("span", {}, "up ", when(status.started_at, "elapsed")) : null,
          status.webhooks ? h("span", { class: "dim" }, `webhooks at ${status.webhooks.address}`) : null,
          h("span", { class: "dim path", title: status.workflow_path }, h("bdi", {}, status.workflow_path)),
          status.version ? h("span", { class: "dim" }, `vik ${status.version}`) : null,
        ),
      ),
      steerBar(status),
    );

  function tiles(status) {
    const waiting = status.waiting.length + (status.waiting_more ?? 0);
    const tile = (href, n, label, tone) =>
      h(
        "a",
        { key: label, class: `tile ${n ? `tone-${tone}` : ""}`, href },
        h("span", { class: "big num" }, whole(n)),
        h("span", {}, label),
      );
    return h(
      "div",
      { class: "tiles", role: "group", "aria-label": "At a glance" },
      tile("#live", status.sessions.length, "running", "run"),
      status.approvals?.length ? tile("#approvals", status.approvals.length, "for you", "bad") : null,
      tile("#parked", status.parked.length, "parked", "bad"),
      tile("#waiting", waiting, "waiting", "wait"),
      status.day ? h("a", { class: "tile wide", href: "#today" }, dayMeters(status.day)) : null,
    );
  }

  const dayMeters = (day) => [
    meter(`spent today (UTC)${estimatedPart(day.spent.estimated_usd)}`, day.spent.cost_usd, day.limit.usd, usd),
    meter("tokens today", day.spent.tokens, day.limit.tokens, tokens),
  ];

  function waitingView(status) {
    const shown = allWaiting ? status.waiting : status.waiting.slice(0, WAITING_SHOWN);
    const hidden = status.waiting.length - shown.length;
    const count = status.waiting.length + (status.waiting_more ?? 0);
    return section(
      "Waiting",
      { id: "waiting", count },
      count === 0
        ? empty("No waiting issues.", "Issues that wait for a slot, a backoff, a blocker or a limit are listed here.")
        : null,
      h(
        "ul",
        { class: "rows" },
        shown.map((waiting) => waitingRow(waiting, titleOf(waiting))),
      ),
      hidden > 0
        ? button(`Show ${hidden} more`, () => {
            allWaiting = true;
            redraw();
          })
        : null,
      status.waiting_more
        ? h("p", { class: "dim" }, `and ${whole(status.waiting_more)} more that are not listed`)
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
    const all = query ? issues : withNamed(issues, status, more);
    return section(
      "Stages",
      { id: "stages", count: total, tools: filter },
      problem ? failure(problem, () => loadIssues(0)) : null,
      !problem && total === 0
        ? query
          ? empty("No matching issues.", "The filter searches ids and titles.")
          : empty(
              "The tracker has no issues.",
              "Create one, for example with ",
              h("code", {}, "vik issue new"),
              ", or check the output of ",
              h("code", {}, "issues.pull.command"),
              " prints.",
            )
        : null,
      total > 0 ? stageColumns(stages, all, open, redraw) : null,
      noStage(stages, all),
      more
        ? h(
            "p",
            { class: "row" },
            h("span", { class: "dim" }, `${whole(issues.length)} of ${whole(total)} issues are loaded.`),
            wanted < MOST
              ? button("Load more", () => {
                  wanted += PAGE;
                  loadIssues(0);
                })
              : h("span", {}, "Use the filter to find other issues."),
          )
        : null,
    );
  }

  return {
    title: "Board",
    enter(draw) {
      redraw = draw;
      loadIssues(0);
      loadReport(0);
    },
    fact(type) {
      if (type === "session") return;
      if (["reset", "state", "pulled", "issue", "session_ended"].includes(type)) loadIssues();
      if (type === "session_ended" || type === "reset") loadReport();
    },
    leave() {
      redraw = () => {};
    },
    view() {
      const { status, problem: lost } = store;
      if (!status)
        return [
          h("h1", { tabindex: -1 }, "Board"),
          lost ? failure(lost, () => store.reload(0)) : h("p", { class: "dim" }, "Loading…"),
        ];
      return [
        daemonView(status),
        tiles(status),
        status.approvals?.length
          ? section(
              "Pending approvals",
              { id: "approvals", count: status.approvals.length },
              h("ul", { class: "rows" }, status.approvals.map(approvalRow)),
            )
          : null,
        section(
          "Live sessions",
          { id: "live", count: status.sessions.length },
          status.sessions.length
            ? null
            : empty(
                "No running sessions.",
                status.paused
                  ? "Everything is paused: press Resume."
                  : "An issue in the state of a stage starts automatically after the next pull.",
              ),
          h("ul", { class: "rows" }, status.sessions.map(liveRow)),
        ),
        h(
          "div",
          { class: "pair", key: "pair" },
          section(
            "Parked",
            {
              id: "parked",
              count: status.parked.length,
              hint: status.parked.length ? "do not start automatically" : null,
            },
            status.parked.length
              ? null
              : empty(
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

/** What the state names is shown also where its issue is on no page that is loaded. */
function withNamed(issues, status, more) {
  if (!more) return issues;
  const known = new Set(issues.map((issue) => issue.issue_id));
  const made = new Map();
  const add = (view, state, hold) => {
    if (known.has(view.issue_id)) return;
    if (!made.has(view.issue_id)) {
      made.set(view.issue_id, {
        issue_id: view.issue_id,
        issue_title: view.issue_title ?? "",
        issue_state: "",
        present: true,
        paused: false,
        hold: null,
        stages: [],
      });
    }
    made
      .get(view.issue_id)
      .stages.push({
        stage: view.stage,
        state,
        hold,
        attempts: view.attempts ?? view.attempt ?? 0,
        session_id: view.session_id ?? null,
      });
  };
  for (const session of status.sessions) add(session, "running", null);
  for (const parked of status.parked) add(parked, "held", parked);
  for (const waiting of status.waiting) add(waiting, "waiting", waiting);
  return [...issues, ...made.values()];
}
