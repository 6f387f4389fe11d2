// The page of a session: the properties of its attempt, the transcript, diff, stderr, prompt and scripts.

import { embed, h } from "./dom.js";
import { coalesce, encodeSegment, get } from "./api.js";
import { store } from "./store.js";
import {
  button,
  chip,
  costMeter,
  errorNotice,
  issueLink,
  issueTitle,
  meter,
  propertyList,
  sessionLink,
  shortId,
} from "./ui.js";
import {
  formatDuration,
  formatInteger,
  formatTokens,
  humanize,
  liveFacts,
  relativeTime,
  totalTokens,
} from "./format.js";
import { cancel } from "./steer.js";
import { attemptCost } from "./attempts.js";
import { diffView, promptView, stderrView, stepsView } from "./evidence.js";
import { EventStore } from "./event_store.js";
import { EventSearch } from "./event_search.js";
import { markMatches, matchList, searchBar } from "./search_view.js";
import { Transcript } from "./transcript.js";
import { issueMessages } from "./messages.js";
import { prose } from "./prose.js";
import { address } from "./address.js";
import { truncate } from "./visible.js";

/** Returns the number of the event that a fragment names, or 0. */
const eventOf = (hash) => Number(/^#event-(\d+)$/.exec(hash)?.[1] ?? 0);

const TABS = [
  ["transcript", "Transcript"],
  ["diff", "Diff"],
  ["stderr", "stderr"],
  ["prompt", "Prompt"],
  ["scripts", "Steps"],
];

const tokenSummary = (usage) =>
  [
    `${formatInteger(usage.input_tokens)} in, of which ${formatInteger(usage.cached_input_tokens)} cached`,
    `${formatInteger(usage.output_tokens)} out`,
  ].join("; ");

export function sessionPage(id, params) {
  let redraw = () => {};
  let detail = null;
  /** The messages of the issue, while the attempt runs. */
  let messages = null;
  let loadError = null;
  let tab = TABS.some(([name]) => `#${name}` === location.hash) ? location.hash.slice(1) : "transcript";
  const loaded = { diff: null, stderr: null };
  const events = new EventStore(id, (first, last) => {
    transcript.onEventsLoaded(first, last);
    redraw();
  });
  const transcript = new Transcript(events, () => redraw());
  // The event that a link names. The page scrolls to it once the length of the log is known.
  let targetSeq = eventOf(location.hash);
  const search = new EventSearch(
    id,
    { q: params.get("q") ?? "", filter: params.get("show") ?? "", current: targetSeq },
    () => redraw(),
  );
  /** The match that the list must scroll to. */
  let targetMatch = search.current;
  /** The tool calls that are open in the list of matches. */
  const openMatches = new Set();

  function showAddress(hash) {
    const query = new URLSearchParams();
    if (search.q) query.set("q", search.q);
    if (search.filter) query.set("show", search.filter);
    address.replace(`${location.pathname}${query.size ? `?${query}` : ""}${hash}`);
  }

  const searchActions = {
    change(changed) {
      search.change(changed);
      showAddress("");
      redraw();
    },
    move(offset) {
      targetMatch = search.move(offset);
      if (!targetMatch) return;
      openMatches.add(`tool ${targetMatch}`);
      showAddress(`#event-${targetMatch}`);
      redraw();
    },
    clear() {
      const seq = search.current;
      search.change({ q: "", filter: "" });
      showAddress(seq ? `#event-${seq}` : "");
      targetSeq = seq;
      redraw();
      document.getElementById("transcript-search")?.focus();
    },
  };

  function openEvent(seq) {
    search.current = seq;
    searchActions.clear();
    // The list of all events is in the document after the next paint.
    requestAnimationFrame(() => requestAnimationFrame(() => transcript.scroller.focus({ preventScroll: true })));
  }

  const load = coalesce(async () => {
    try {
      const loadedDetail = await get(`sessions/${encodeSegment(id)}`);
      // A finished transcript is read from its start, a running one from its end.
      if (!detail && loadedDetail.attempt.outcome !== null) transcript.isFollowing = false;
      detail = loadedDetail;
      loadError = null;
      if (detail.attempt.outcome === null) {
        messages ??= issueMessages(detail.issue_id, () => redraw());
        messages.load(0);
      } else messages = null;
      if (detail.live) events.announce(detail.live.events);
      else loadEventCount();
    } catch (error) {
      loadError = error;
    }
    redraw();
  }, 300);

  /** Loads the number of events of an ended session. */
  async function loadEventCount() {
    try {
      const { last_seq: last, ended } = await get(
        `sessions/${encodeSegment(id)}/events?after=${Number.MAX_SAFE_INTEGER}&limit=1`,
      );
      events.hasEnded = ended;
      events.announce(last);
    } catch {
      // The transcript shows the errors of its own requests.
    }
  }

  const loadEvidence = async (name) => {
    try {
      loaded[name] = await get(`sessions/${encodeSegment(id)}/${name}`);
    } catch (error) {
      loaded[name] = error;
    }
    redraw();
  };

  function selectTab(name, movesFocus) {
    tab = name;
    showAddress(`#${name}`);
    if (name in loaded) loadEvidence(name);
    redraw();
    if (movesFocus)
      requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(`tab-${name}`)?.focus()));
  }

  function onTabKey(event) {
    const offset = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!offset) return;
    event.preventDefault();
    const index = TABS.findIndex(([name]) => name === tab);
    selectTab(TABS[(index + offset + TABS.length) % TABS.length][0], true);
  }

  const liveSession = () => store.status?.sessions.find((session) => session.session_id === id) ?? detail.live;

  function head() {
    const { attempt } = detail;
    const running = attempt.outcome === null ? liveSession() : null;
    return [
      h(
        "p",
        { class: "crumbs" },
        h("a", { href: "/" }, "Board"),
        " / ",
        issueLink(detail.issue_id),
        ` / ${detail.stage}, attempt ${attempt.attempt}`,
      ),
      h(
        "div",
        { class: "page-head" },
        h(
          "div",
          { class: "grow" },
          h("h1", { tabindex: -1 }, issueTitle(detail.issue_title, 300)),
          h(
            "p",
            { class: "meta" },
            chip(running ? running.phase : (attempt.outcome ?? "running")),
            attempt.failure_class ? h("span", { class: "tag" }, humanize(attempt.failure_class)) : null,
            running?.activity ? h("span", { class: "activity" }, truncate(running.activity, 200)) : null,
            running ? h("span", { class: "dim wrap" }, ...liveFacts(running)) : null,
            attempt.reason ? h("span", { class: "wrap clamp3" }, prose(truncate(attempt.reason, 600))) : null,
            attempt.hand_over_failure
              ? h(
                  "span",
                  { class: "wrap clamp3" },
                  "not handed over: ",
                  prose(truncate(attempt.hand_over_failure, 600)),
                )
              : null,
          ),
        ),
        running
          ? h(
              "div",
              { class: "row tools" },
              button("Cancel", () => cancel(detail.issue_id), { kind: "danger-quiet" }),
            )
          : null,
      ),
      propertyList(
        [
          "Agent",
          detail.agent,
          detail.model ? ` · ${detail.model}` : "",
          h("span", { class: "dim" }, ` (${humanize(detail.runtime)})`),
        ],
        ["Started", relativeTime(attempt.started_at)],
        [
          "Duration",
          attempt.duration_ms === null
            ? relativeTime(attempt.started_at, "elapsed")
            : formatDuration(attempt.duration_ms),
        ],
        running
          ? ["Last event", relativeTime(running.last_event_at)]
          : attempt.exit_code === null
            ? null
            : ["Exit code", String(attempt.exit_code)],
        [
          "Tokens",
          running
            ? meter(
                "tokens",
                Math.max(running.charged?.tokens ?? 0, totalTokens(running.usage)),
                running.budget?.tokens,
                formatTokens,
                true,
              )
            : h(
                "span",
                {
                  class: "num",
                  title: tokenSummary(attempt.usage),
                },
                formatTokens(totalTokens(attempt.usage)),
              ),
        ],
        [
          "Cost",
          running ? costMeter(running, true) : attemptCost(attempt),
        ],
        attempt.resumed_from
          ? ["Resumes", sessionLink(attempt.resumed_from, `session ${shortId(attempt.resumed_from)}`)]
          : null,
        ["Session", h("code", { class: "small" }, truncate(id, 60))],
      ),
    ];
  }

  const tabList = () =>
    h(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "Output of the attempt", on: { keydown: onTabKey } },
      TABS.map(([name, label]) =>
        h(
          "button",
          {
            key: name,
            type: "button",
            role: "tab",
            id: `tab-${name}`,
            "aria-controls": `panel-${name}`,
            "aria-selected": String(tab === name),
            tabindex: tab === name ? 0 : -1,
            on: { click: () => selectTab(name) },
          },
          label,
          name === "scripts" && detail.scripts.some((script) => script.ok === false)
            ? h("span", { class: "tag" }, "failed")
            : null,
        ),
      ),
    );

  function transcriptView() {
    const isSearch = search.isActive;
    const onLoadMore = () => {
      search.loadMore();
      redraw();
    };
    return [
      h("div", { class: "transcript-tools" }, searchBar(search, searchActions), isSearch ? null : seekBar()),
      isSearch
        ? matchList(search, { expanded: openMatches, redraw: () => redraw(), onOpen: openEvent, onLoadMore })
        : [
            events.lastSeq === 0 && !events.loading.size
              ? h(
                  "p",
                  { class: "dim" },
                  detail.attempt.outcome ? "The log has no events." : "No events from the agent yet.",
                )
              : null,
            embed("transcript", transcript.scroller),
          ],
    ];
  }

  function scrollToNewest() {
    transcript.scrollToNewest();
    // The button is replaced by a text.
    transcript.scroller.focus({ preventScroll: true });
  }

  function seekBar() {
    const last = events.lastSeq;
    const onSeekKey = (event) => {
      if (event.key !== "Enter") return;
      const seq = transcript.seek(Number(event.target.value));
      showAddress(`#event-${seq}`);
      redraw();
    };
    return h(
      "div",
      { class: "row seek" },
      h(
        "label",
        { class: "small" },
        "Event ",
        h("input", {
          type: "number",
          min: 1,
          max: Math.max(last, 1),
          placeholder: "#",
          id: "seek",
          on: { keydown: onSeekKey },
        }),
      ),
      h(
        "span",
        { class: "dim small num" },
        last ? `${formatInteger(transcript.firstVisibleSeq())} of ${formatInteger(last)}` : "no events",
      ),
      events.error ? h("span", { class: "small bad-text" }, `${events.error.message} Retrying.`) : null,
      h("span", { class: "grow" }),
      button("First", () => transcript.seek(1), { kind: "small" }),
      !events.hasEnded && transcript.isFollowing
        ? h("span", { class: "small dim" }, "Follows the newest event")
        : button(events.hasEnded ? "Last" : "Jump to newest ↓", scrollToNewest, {
            kind: events.hasEnded ? "small" : "small primary",
          }),
    );
  }

  function panel() {
    const views = {
      transcript: transcriptView,
      diff: () => diffView(loaded.diff, "The attempt changed no files."),
      stderr: () => stderrView(loaded.stderr),
      prompt: () => promptView(detail.prompt),
      scripts: () => stepsView(detail.scripts, detail.attempt),
    };
    return TABS.map(([name]) =>
      h(
        "div",
        { key: name, id: `panel-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, hidden: name !== tab },
        name === tab ? views[name]() : name === "transcript" ? embed("transcript", transcript.scroller) : null,
      ),
    );
  }

  function scrollToMatch() {
    const row = targetMatch ? document.querySelector(`.matches [aria-posinset="${targetMatch}"]`) : null;
    if (!row) return;
    targetMatch = 0;
    row.scrollIntoView({ block: "nearest" });
  }

  return {
    title: "Session",
    className: "fill",
    mount(scheduleRender) {
      redraw = scheduleRender;
      load(0);
      if (tab in loaded) loadEvidence(tab);
      if (search.isActive) search.schedule();
    },
    unmount() {
      search.close();
      markMatches("");
      transcript.close();
      redraw = () => {};
    },
    onRender() {
      if (!detail || tab !== "transcript") return;
      markMatches(search.isActive ? search.q : "");
      if (search.isActive) return scrollToMatch();
      if (targetSeq && events.lastSeq) {
        const seq = targetSeq;
        targetSeq = 0;
        transcript.seek(seq);
      } else if (!transcript.hasDrawn) transcript.scheduleDraw();
      transcript.hasDrawn = true;
    },
    onHashChange(hash) {
      const seq = eventOf(hash);
      if (seq && !search.isActive) transcript.seek(seq);
    },
    onFact(type, fact) {
      if (type === "session" && fact.session_id === id) {
        events.announce(fact.events);
        search.onGrowth(fact.events);
        if (!detail || fact.phase !== detail.live?.phase) load();
      }
      if (type === "issue" && fact.issue_id === detail?.issue_id) messages?.load();
      if ((type === "session_ended" && fact.session_id === id) || type === "reset") {
        load();
        if (tab in loaded) loadEvidence(tab);
      }
    },
    view() {
      this.title = detail ? `${detail.issue_id}, ${detail.stage}` : "Session";
      if (!detail)
        return [
          h("h1", { tabindex: -1 }, "Session"),
          loadError ? errorNotice(loadError, () => load(0)) : h("p", { class: "dim" }, "Loading…"),
        ];
      return [
        head(),
        loadError ? errorNotice(loadError, () => load(0)) : null,
        messages?.folded() ?? null,
        tabList(),
        panel(),
      ];
    },
  };
}
