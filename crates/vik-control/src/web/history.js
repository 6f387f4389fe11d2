// The history: runs of all issues, newest first, with filters that are kept in the address.

import { h } from "./dom.js";
import { coalesce, get } from "./api.js";
import { store } from "./store.js";
import { button, chip, emptyState, errorNotice, issueHeading, section, sessionHref } from "./ui.js";
import { absoluteTime, formatDuration, humanize, outcomeName, OUTCOMES, relativeTime } from "./format.js";
import { runCost } from "./attempts.js";
import { truncate } from "./visible.js";

const PAGE_SIZE = 50;
/** The maximum number of runs that an update of the page loads again. */
const MAX_RELOADED = 1000;
const FILTERS = ["outcome", "stage", "agent", "since", "until", "q", "issue"];
const PERIODS = [
  ["", "any time"],
  ["24h", "in the last 24 hours"],
  ["7d", "in the last 7 days"],
  ["30d", "in the last 30 days"],
];
const BETWEEN = "between";
const UNSUCCESSFUL = Object.keys(OUTCOMES)
  .filter((outcome) => outcome !== "succeeded")
  .join(",");
const DAY = /^\d{4}-\d{2}-\d{2}$/;

export function historyPage(params) {
  let redraw = () => {};
  const filters = Object.fromEntries(FILTERS.map((name) => [name, params.get(name) ?? ""]));
  let hasDates = Boolean(filters.until) || DAY.test(filters.since);
  let runs = null;
  let hasMore = false;
  let loadError = null;
  let isLoadingMore = false;
  /** Whether `runs` are those of an earlier filter. */
  let isStale = false;
  /** Counts the changes of the filters: a page of runs that an earlier filter selected is dropped. */
  let revision = 0;

  const query = () => new URLSearchParams(FILTERS.filter((name) => filters[name]).map((name) => [name, filters[name]]));

  function getRuns(limit, before) {
    const params = query();
    params.set("limit", String(limit));
    if (before) params.set("before", before);
    return get(`runs?${params}`);
  }

  const load = coalesce(async () => {
    const current = revision;
    try {
      const page = await getRuns(isStale ? PAGE_SIZE : Math.min(Math.max(PAGE_SIZE, runs?.length ?? 0), MAX_RELOADED));
      if (current !== revision) return;
      isStale = false;
      runs = page.runs;
      hasMore = page.more;
      loadError = null;
    } catch (error) {
      if (current !== revision) return;
      loadError = error;
    }
    redraw();
  }, 300);

  async function loadMore() {
    const current = revision;
    isLoadingMore = true;
    redraw();
    try {
      const page = await getRuns(PAGE_SIZE, runs.at(-1).run_id);
      if (current === revision) {
        const known = new Set(runs.map((run) => run.run_id));
        runs = [...runs, ...page.runs.filter((run) => !known.has(run.run_id))];
        hasMore = page.more;
        loadError = null;
      }
    } catch (error) {
      loadError = error;
    }
    isLoadingMore = false;
    redraw();
  }

  function setFilters(changed) {
    Object.assign(filters, changed);
    revision += 1;
    isStale = true;
    loadError = null;
    const search = query().toString();
    history.replaceState(null, "", search ? `/history?${search}` : "/history");
    load();
    redraw();
  }

  const clearFilters = () => {
    hasDates = false;
    setFilters(Object.fromEntries(FILTERS.map((name) => [name, ""])));
  };

  function select(label, value, options, onChange) {
    // A value of the address that is no choice of the page is shown too.
    const all = options.some(([option]) => option === value) ? options : [...options, [value, truncate(value, 40)]];
    return h(
      "label",
      {},
      h("span", {}, label),
      h(
        "select",
        { on: { change: (event) => onChange(event.target.value) } },
        all.map(([option, text]) => h("option", { key: option, value: option, selected: option === value }, text)),
      ),
    );
  }

  const dayInput = (label, name) =>
    h(
      "label",
      {},
      h("span", {}, label),
      h("input", {
        type: "date",
        value: DAY.test(filters[name]) ? filters[name] : "",
        on: { change: (event) => setFilters({ [name]: event.target.value }) },
      }),
    );

  function filterBar() {
    const stages = store.status?.workflow?.stages ?? [];
    const agents = [...new Set(stages.map((stage) => stage.agent))].sort();
    const isFiltered = FILTERS.some((name) => filters[name]);
    const choices = (all, names) => [["", all], ...names.map((name) => [name, name])];
    return h(
      "div",
      { class: "filters", role: "search", "aria-label": "Filter the runs" },
      h(
        "label",
        { class: "search" },
        h("span", {}, "Issue"),
        h("input", {
          type: "search",
          placeholder: "Id or title",
          value: filters.q,
          "data-search": true,
          on: { input: (event) => setFilters({ q: event.target.value }) },
        }),
      ),
      select(
        "Outcome",
        filters.outcome,
        [["", "any"], ...Object.entries(OUTCOMES), [UNSUCCESSFUL, "not succeeded"]],
        (outcome) => setFilters({ outcome }),
      ),
      select(
        "Stage",
        filters.stage,
        choices(
          "any",
          stages.map((stage) => stage.stage),
        ),
        (stage) => setFilters({ stage }),
      ),
      select("Agent", filters.agent, choices("any", agents), (agent) => setFilters({ agent })),
      select("Started", hasDates ? BETWEEN : filters.since, [...PERIODS, [BETWEEN, "between two days"]], (since) => {
        hasDates = since === BETWEEN;
        if (hasDates) redraw();
        else setFilters({ since, until: "" });
      }),
      hasDates ? [dayInput("From (UTC)", "since"), dayInput("Before (UTC)", "until")] : null,
      filters.issue
        ? button(
            ["Only issue ", h("bdi", {}, truncate(filters.issue, 60)), h("span", { "aria-hidden": "true" }, " ✕")],
            () => setFilters({ issue: "" }),
            { title: "Show the runs of all issues" },
          )
        : null,
      isFiltered ? button("Clear the filters", clearFilters, { kind: "quiet" }) : null,
    );
  }

  function runDuration(run) {
    const last = run.attempts.at(-1);
    if (run.state === "running" && last && last.duration_ms === null) return relativeTime(last.started_at, "elapsed");
    const durations = run.attempts.map((attempt) => attempt.duration_ms).filter((ms) => ms !== null);
    return formatDuration(durations.length ? durations.reduce((sum, ms) => sum + ms, 0) : null);
  }

  const startedAt = (at) => [
    h("span", { class: "small" }, absoluteTime(at)),
    at ? h("span", { class: "small dim ago" }, relativeTime(at)) : null,
  ];

  const cell = (label, ...content) => h("td", { role: "cell", "data-label": label }, content);

  function row(run) {
    const last = run.attempts.at(-1);
    const isOpen = run.state !== "ended" && run.state !== "running";
    return h(
      "tr",
      { key: run.run_id, role: "row" },
      h(
        "th",
        { role: "rowheader", scope: "row" },
        issueHeading(run.issue_id, run.issue_title, { "data-item": true }),
      ),
      cell("Stage", h("bdi", {}, run.stage)),
      cell(
        "Outcome",
        run.state === "running" || !run.outcome ? chip(run.state) : chip(run.outcome, outcomeName(run.outcome)),
        isOpen && run.outcome ? h("span", { class: "small dim" }, ` ${humanize(run.state)}`) : null,
      ),
      cell("Attempts", h("span", { class: "num" }, run.attempts.length)),
      cell("Duration", h("span", { class: "num" }, runDuration(run))),
      cell("Cost", h("span", { class: "num" }, runCost(run))),
      cell("Started", startedAt(run.attempts[0]?.started_at)),
      cell(
        "Last attempt",
        last
          ? h(
              "a",
              {
                href: sessionHref(last.session_id),
                "aria-label": `Transcript of the last attempt of ${truncate(run.issue_id, 60)}, ${run.stage}`,
              },
              "Transcript",
            )
          : "–",
      ),
    );
  }

  const COLUMNS = ["Issue", "Stage", "Outcome", "Attempts", "Duration", "Cost", "Started", "Last attempt"];

  const runTable = () =>
    h(
      "table",
      // The roles remain when a narrow screen shows the rows as blocks.
      { class: "runs", role: "table", "aria-label": "Runs, newest first", "aria-busy": String(isStale) },
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          COLUMNS.map((name) => h("th", { key: name, role: "columnheader", scope: "col" }, name)),
        ),
      ),
      h("tbody", { role: "rowgroup" }, runs.map(row)),
    );

  function results() {
    if (runs === null) return loadError ? null : h("p", { class: "dim" }, "Loading…");
    if (!runs.length && FILTERS.some((name) => filters[name]))
      return emptyState("No runs match.", "Change or clear the filters to see other runs.");
    if (!runs.length) return emptyState("No runs yet.", "A run is listed here as soon as a stage has started an agent.");
    return [
      runTable(),
      hasMore && !isStale
        ? button(isLoadingMore ? "Loading…" : "Load more", loadMore, { "aria-disabled": isLoadingMore ? "true" : null })
        : null,
    ];
  }

  return {
    title: "History",
    mount(scheduleRender) {
      redraw = scheduleRender;
      load(0);
    },
    unmount() {
      load.cancel();
      redraw = () => {};
    },
    onFact(type) {
      if (["reset", "state", "issue", "session_ended"].includes(type) && (runs?.length ?? 0) <= MAX_RELOADED) load(1000);
    },
    view: () => [
      h("h1", { tabindex: -1 }, "History"),
      section(
        "Runs",
        { id: "runs", count: runs && !isStale ? `${runs.length}${hasMore ? "+" : ""}` : undefined, hint: "newest first" },
        filterBar(),
        loadError ? errorNotice(loadError, () => load(0)) : null,
        results(),
      ),
    ],
  };
}
