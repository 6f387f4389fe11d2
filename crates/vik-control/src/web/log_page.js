// The log of the daemon, latest line first, with filters that are kept in the address.

import { h } from "./dom.js";
import { address } from "./address.js";
import { coalesce, get } from "./api.js";
import { button, emptyState, errorNotice, issueLink, section, sessionLink } from "./ui.js";
import { formatDateTime, formatTime } from "./format.js";
import { prose } from "./prose.js";
import { daemonHead } from "./daemon_pages.js";
import { truncate } from "./visible.js";

const PAGE_SIZE = 200;
/** The level parameter: lines of this level and above. */
const LEVELS = [
  ["", "all"],
  ["info", "info and above"],
  ["warn", "warnings and errors"],
  ["error", "errors"],
];
const TONES = { error: "bad", warn: "wait", info: "run" };
const FILTERS = ["level", "issue", "q"];

export function logPage(params) {
  let redraw = () => {};
  const filters = Object.fromEntries(FILTERS.map((name) => [name, params.get(name) ?? ""]));
  let lines = null;
  let next = null;
  let loadError = null;
  let isLoadingMore = false;
  /** Counts the changes of the filters: lines that an earlier filter selected are dropped. */
  let revision = 0;

  const query = () => new URLSearchParams(FILTERS.filter((name) => filters[name]).map((name) => [name, filters[name]]));

  async function loadPage(before) {
    const current = revision;
    const request = query();
    request.set("limit", String(PAGE_SIZE));
    if (before) request.set("before", before);
    try {
      const page = await get(`log?${request}`);
      if (current !== revision) return;
      lines = before ? [...lines, ...page.lines] : page.lines;
      next = page.next;
      loadError = null;
    } catch (error) {
      if (current === revision) loadError = error;
    }
    redraw();
  }

  const load = coalesce(() => loadPage(null), 300);
  /** Loads the lines that were written since. A person who reads older lines keeps them. */
  const update = coalesce(async () => {
    if ((lines?.length ?? 0) <= PAGE_SIZE && !isLoadingMore) await loadPage(null);
  }, 1500);

  async function loadMore() {
    if (isLoadingMore) return;
    isLoadingMore = true;
    // An update that is on its way would replace the older lines.
    revision += 1;
    redraw();
    await loadPage(next);
    isLoadingMore = false;
    redraw();
  }

  function setFilters(changed) {
    Object.assign(filters, changed);
    revision += 1;
    loadError = null;
    const search = query().toString();
    address.replace(search ? `/log?${search}` : "/log");
    load();
    redraw();
  }

  const field = (label, name, placeholder, props = {}) =>
    h(
      "label",
      { class: "search" },
      h("span", {}, label),
      h("input", {
        type: "search",
        placeholder,
        value: filters[name],
        on: { input: (event) => setFilters({ [name]: event.target.value.trim() }) },
        ...props,
      }),
    );

  const filterBar = () =>
    h(
      "div",
      { class: "filters", role: "search", "aria-label": "Filter the log" },
      field("Text", "q", "Part of a message", { "data-search": true }),
      h(
        "label",
        {},
        h("span", {}, "Level"),
        h(
          "select",
          { on: { change: (event) => setFilters({ level: event.target.value }) } },
          LEVELS.map(([level, label]) =>
            h("option", { key: level, value: level, selected: level === filters.level }, label),
          ),
        ),
      ),
      field("Issue", "issue", "Id"),
      FILTERS.some((name) => filters[name])
        ? button("Clear the filters", () => setFilters({ level: "", issue: "", q: "" }), { kind: "quiet" })
        : null,
      button("Update", () => load(0), { title: "Load the latest lines" }),
    );

  const lineRow = (line, index) =>
    h(
      "li",
      {
        key: `${line.at} ${index}`,
        class: `log-line tone-${TONES[line.level] ?? "off"}`,
        tabindex: -1,
        "data-item": true,
      },
      h("time", { class: "num dim", datetime: line.at, title: formatDateTime(line.at) }, formatTime(line.at)),
      h("span", { class: "level" }, line.level.toUpperCase()),
      h(
        "div",
        {},
        h("p", { class: "wrap" }, prose(truncate(line.message, 4000))),
        h(
          "p",
          { class: "small dim meta" },
          line.issue ? issueLink(line.issue) : null,
          line.stage ? h("span", {}, line.stage) : null,
          line.session ? sessionLink(line.session, `attempt ${line.attempt}`) : null,
        ),
      ),
    );

  /** Returns the lines with a heading for each day. */
  function lineList() {
    const rows = [];
    let day = "";
    lines.forEach((line, index) => {
      const lineDay = formatDateTime(line.at).split(",")[0];
      if (lineDay !== day) rows.push(h("li", { key: `day ${lineDay}`, class: "log-day" }, h("h3", {}, lineDay)));
      day = lineDay;
      rows.push(lineRow(line, lines.length - index));
    });
    return h("ul", { class: "log", "aria-label": "Lines, latest first" }, rows);
  }

  function results() {
    if (lines === null) return loadError ? null : h("p", { class: "dim" }, "Loading…");
    if (!lines.length && !next)
      return FILTERS.some((name) => filters[name])
        ? emptyState("No lines match.", "Change or clear the filters to see other lines.")
        : emptyState("The log is empty.", "The daemon writes to it when something happens.");
    return [
      lines.length ? lineList() : h("p", { class: "dim" }, "No line of the searched part matches."),
      next
        ? button(isLoadingMore ? "Loading…" : "Older lines", loadMore, {
            "aria-disabled": isLoadingMore ? "true" : null,
          })
        : h("p", { class: "dim small" }, "The log has no older lines."),
    ];
  }

  return {
    title: "Log",
    mount(scheduleRender) {
      redraw = scheduleRender;
      load(0);
    },
    unmount() {
      load.cancel();
      update.cancel();
      redraw = () => {};
    },
    onFact(type) {
      if (["reset", "state", "pulled", "issue", "session_ended"].includes(type)) update();
    },
    view: () => [
      daemonHead("Log"),
      section(
        "Lines",
        { id: "lines", hint: "latest first" },
        filterBar(),
        loadError ? errorNotice(loadError, () => load(0)) : null,
        results(),
      ),
    ],
  };
}
