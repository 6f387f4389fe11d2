// One attempt: its facts, and what it left: transcript, diff, stderr, prompt, scripts.

import { h, own } from "./dom.js";
import { coalesce, get, part } from "./api.js";
import { store } from "./store.js";
import { button, chip, facts, failure, issueLink, issueTitle, meter, sessionLink, shortId } from "./ui.js";
import { allTokens, duration, tokens, usd, when, whole, words } from "./format.js";
import { cancel } from "./steer.js";
import { costOf } from "./attempts.js";
import { diffView, promptView, scriptsView, stderrView } from "./evidence.js";
import { EventStore } from "./event_store.js";
import { Transcript } from "./transcript.js";
import { cut } from "./visible.js";

const TABS = [
  ["transcript", "Transcript"],
  ["diff", "Diff"],
  ["stderr", "stderr"],
  ["prompt", "Prompt"],
  ["scripts", "Scripts"],
];

export function sessionPage(id) {
  let redraw = () => {};
  let detail = null;
  let problem = null;
  let tab = TABS.some(([name]) => `#${name}` === location.hash) ? location.hash.slice(1) : "transcript";
  const loaded = { diff: null, stderr: null };
  const events = new EventStore(id, (first, last) => {
    transcript.loaded(first, last);
    redraw();
  });
  const transcript = new Transcript(events, () => redraw());
  // A link to an event: it is gone to once the length of the log is known.
  let sought = Number(/^#event-(\d+)$/.exec(location.hash)?.[1] ?? 0);

  const load = coalesce(async () => {
    try {
      detail = await get(`sessions/${part(id)}`);
      problem = null;
      if (detail.live) grow(detail.live.events);
      else refill();
    } catch (error) {
      problem = error;
    }
    redraw();
  }, 300);

  function grow(count) {
    events.grow(count);
  }

  /** Asks for what is new although nobody said how much: the end of the log, after the agent's. */
  async function refill() {
    try {
      const { last_seq: last, ended } = await get(
        `sessions/${part(id)}/events?after=${Number.MAX_SAFE_INTEGER}&limit=1`,
      );
      events.ended = ended;
      grow(last);
    } catch {
      // The list says it where its own requests fail.
    }
  }

  const evidence = async (name) => {
    try {
      loaded[name] = await get(`sessions/${part(id)}/${name}`);
    } catch (error) {
      loaded[name] = error;
    }
    redraw();
  };

  function choose(name, focus) {
    tab = name;
    history.replaceState(null, "", `#${name}`);
    if (name in loaded) evidence(name);
    redraw();
    if (focus)
      requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(`tab-${name}`)?.focus()));
  }

  function tabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = TABS.findIndex(([name]) => name === tab);
    choose(TABS[(at + by + TABS.length) % TABS.length][0], true);
  }

  const live = () => store.status?.sessions.find((session) => session.session_id === id) ?? detail.live;

  function head() {
    const { attempt } = detail;
    const running = attempt.outcome === null ? live() : null;
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
        { class: "board-head" },
        h(
          "div",
          { class: "grow" },
          h("h1", { tabindex: -1 }, issueTitle(detail.issue_title, 300)),
          h(
            "p",
            { class: "meta" },
            chip(running ? running.phase : (attempt.outcome ?? "running")),
            attempt.failure_class ? h("span", { class: "tag" }, words(attempt.failure_class)) : null,
            running?.activity ? h("span", { class: "activity" }, cut(running.activity, 200)) : null,
            attempt.reason ? h("span", { class: "wrap clamp3" }, cut(attempt.reason, 600)) : null,
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
      facts(
        [
          "Agent",
          detail.agent,
          detail.model ? ` · ${detail.model}` : "",
          h("span", { class: "dim" }, ` (${words(detail.runtime)})`),
        ],
        ["Started", when(attempt.started_at)],
        ["Took", attempt.duration_ms === null ? when(attempt.started_at, "elapsed") : duration(attempt.duration_ms)],
        running
          ? ["Last event", when(running.last_event_at)]
          : attempt.exit_code === null
            ? null
            : ["Exit code", String(attempt.exit_code)],
        [
          "Tokens",
          running
            ? meter(
                "tokens",
                Math.max(running.charged?.tokens ?? 0, allTokens(running.usage)),
                running.budget?.tokens,
                tokens,
                true,
              )
            : h(
                "span",
                {
                  class: "num",
                  title: `${whole(attempt.usage.input_tokens)} in, of which ${whole(attempt.usage.cached_input_tokens)} cached; ${whole(attempt.usage.output_tokens)} out`,
                },
                tokens(allTokens(attempt.usage)),
              ),
        ],
        [
          "Cost",
          running
            ? meter(
                "cost",
                Math.max(running.charged?.cost_usd ?? 0, running.cost_usd ?? 0),
                running.budget?.usd,
                usd,
                true,
              )
            : costOf(attempt),
        ],
        attempt.resumed_from
          ? ["Resumes", sessionLink(attempt.resumed_from, `session ${shortId(attempt.resumed_from)}`)]
          : null,
        ["Session", h("code", { class: "small" }, cut(id, 60))],
      ),
    ];
  }

  const tabList = () =>
    h(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "Output of the attempt", on: { keydown: tabKey } },
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
            on: { click: () => choose(name) },
          },
          label,
          name === "scripts" && detail.scripts.some((script) => script.ok === false)
            ? h("span", { class: "tag" }, "failed")
            : null,
        ),
      ),
    );

  function transcriptView() {
    const last = events.lastSeq;
    const goTo = (event) => {
      if (event.key !== "Enter") return;
      const to = transcript.seek(Number(event.target.value));
      history.replaceState(null, "", `#event-${to}`);
      redraw();
    };
    return [
      h(
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
            "data-search": true,
            id: "seek",
            on: { keydown: goTo },
          }),
        ),
        h("span", { class: "dim small num" }, last ? `${whole(transcript.position())} of ${whole(last)}` : "no events"),
        events.problem ? h("span", { class: "small bad-text" }, `${events.problem.message} Retrying.`) : null,
        h("span", { class: "grow" }),
        button("First", () => transcript.seek(1), { kind: "small" }),
        button(
          transcript.follow ? (events.ended ? "At the end" : "Following") : "Jump to newest ↓",
          () => transcript.newest(),
          {
            kind: transcript.follow ? "small" : "small primary",
            "aria-pressed": String(transcript.follow),
            id: "newest",
          },
        ),
      ),
      last === 0 && !events.loading.size
        ? h(
            "p",
            { class: "dim" },
            detail.attempt.outcome ? "The log has no events." : "No events from the agent yet.",
          )
        : null,
      own("transcript", transcript.scroller),
    ];
  }

  function panel() {
    const views = {
      transcript: transcriptView,
      diff: () => diffView(loaded.diff),
      stderr: () => stderrView(loaded.stderr),
      prompt: () => promptView(detail.prompt),
      scripts: () => scriptsView(detail.scripts),
    };
    return TABS.map(([name]) =>
      h(
        "div",
        { key: name, id: `panel-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, hidden: name !== tab },
        name === tab ? views[name]() : name === "transcript" ? own("transcript", transcript.scroller) : null,
      ),
    );
  }

  return {
    title: "Session",
    wide: "fill",
    enter(draw) {
      redraw = draw;
      load(0);
      if (tab in loaded) evidence(tab);
    },
    leave() {
      transcript.close();
      redraw = () => {};
    },
    drawn() {
      if (!detail || tab !== "transcript") return;
      if (sought && events.lastSeq) {
        const to = sought;
        sought = 0;
        transcript.seek(to);
      } else if (!transcript.started) transcript.soon();
      transcript.started = true;
    },
    hash(hash) {
      const seq = Number(/^#event-(\d+)$/.exec(hash)?.[1] ?? 0);
      if (seq) transcript.seek(seq);
    },
    fact(type, fact) {
      if (type === "session" && fact.session_id === id) {
        grow(fact.events);
        if (!detail || fact.phase !== detail.live?.phase) load();
      }
      if ((type === "session_ended" && fact.session_id === id) || type === "reset") {
        load();
        if (tab in loaded) evidence(tab);
      }
    },
    view() {
      this.title = detail ? `${detail.issue_id}, ${detail.stage}` : "Session";
      if (!detail)
        return [
          h("h1", { tabindex: -1 }, "Session"),
          problem ? failure(problem, () => load(0)) : h("p", { class: "dim" }, "Loading…"),
        ];
      return [head(), problem ? failure(problem, () => load(0)) : null, tabList(), panel()];
    },
  };
}
