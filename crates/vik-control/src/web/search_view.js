// The search bar of a transcript, and the list of matches.

import { h } from "./dom.js";
import { button, emptyState, errorNotice } from "./ui.js";
import { formatInteger, pluralize } from "./format.js";
import { eventRow } from "./event_view.js";
import { FILTERS } from "./event_search.js";

/** Returns the search field and the filters. `actions` has `change`, `move` and `clear`. */
export function searchBar(search, actions) {
  const onKey = (event) => {
    if (event.key === "Enter") actions.move(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") actions.clear();
    else return;
    event.preventDefault();
  };
  return h(
    "div",
    { class: "row search-bar", role: "search", "aria-label": "Search the transcript" },
    h("input", {
      type: "search",
      placeholder: "Search the transcript",
      "aria-label": "Search the transcript",
      title: "Enter: next match. Shift+Enter: previous match. Escape: all events.",
      value: search.q,
      "data-search": true,
      id: "transcript-search",
      on: { input: (event) => actions.change({ q: event.target.value.trim() }), keydown: onKey },
    }),
    h(
      "div",
      { class: "segments", role: "group", "aria-label": "Events" },
      Object.entries(FILTERS).map(([filter, [label]]) =>
        h(
          "button",
          {
            key: filter,
            type: "button",
            "aria-pressed": String(search.filter === filter),
            on: { click: () => actions.change({ filter }) },
          },
          label,
        ),
      ),
    ),
    search.isActive
      ? [
          h("span", { class: "small num", role: "status" }, matchCount(search)),
          h("span", { class: "grow" }),
          button("Previous", () => actions.move(-1), { kind: "small", title: "Previous match (Shift+Enter)" }),
          button("Next", () => actions.move(1), { kind: "small", title: "Next match (Enter)" }),
          button("Clear", actions.clear, { kind: "small", title: "Show all events (Escape)" }),
        ]
      : null,
  );
}

function matchCount(search) {
  const rows = search.rows();
  const index = rows.findIndex(({ event }) => event.seq === search.current);
  const more = search.hasMore ? "+" : "";
  const count = rows.length === 1 && !more ? "1 match" : `${formatInteger(rows.length)}${more} matches`;
  const progress = search.isSearching
    ? search.lastSeq
      ? `, searched ${formatInteger(search.scannedTo)} of ${formatInteger(search.lastSeq)}…`
      : "Searching…"
    : "";
  if (search.isSearching && !search.lastSeq) return progress;
  return `${index < 0 ? "" : `${formatInteger(index + 1)} of `}${count}${progress}`;
}

/** Returns the list of matches. `onOpen(seq)` shows an event among all events. */
export function matchList(search, { expanded, redraw, onOpen, onLoadMore }) {
  const rows = search.rows();
  const onClick = (event) => {
    const link = event.target.closest("a.seq");
    if (!link) return;
    event.preventDefault();
    onOpen(Number(link.hash.slice("#event-".length)));
  };
  return h(
    "div",
    {
      key: "matches",
      class: "transcript matches",
      tabindex: 0,
      role: "region",
      "aria-label": "Matches",
      on: { click: onClick },
    },
    search.error ? errorNotice(search.error, onLoadMore) : null,
    rows.map(({ event, result }) =>
      eventRow(event.seq, event, {
        total: -1,
        isHighlighted: event.seq === search.current,
        isMatch: true,
        expanded,
        redraw,
        result,
        hasEnded: false,
      }),
    ),
    !rows.length && !search.isSearching && !search.error
      ? emptyState("No matches.", "The search finds text of events in any case.")
      : null,
    search.hasMore && !search.isSearching && rows.length
      ? h(
          "p",
          { class: "row padded" },
          button("Load more", onLoadMore),
          h("span", { class: "dim small" }, `${pluralize(search.lastSeq - search.scannedTo, "event")} not searched yet`),
        )
      : null,
  );
}

/** Marks the text that was searched for, without changing the document. */
export function markMatches(q) {
  if (!globalThis.Highlight) return;
  CSS.highlights.delete("match");
  const list = document.querySelector(".matches");
  if (!q || !list) return;
  const needle = q.toLowerCase();
  const ranges = [];
  const texts = document.createTreeWalker(list, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.toLowerCase();
    // Some letters change their length in lower case, such as “İ”: positions in such a text are not those of the node.
    if (text.length !== texts.currentNode.data.length) continue;
    for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + needle.length)) {
      const range = new Range();
      range.setStart(texts.currentNode, at);
      range.setEnd(texts.currentNode, at + needle.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("match", new Highlight(...ranges));
}
