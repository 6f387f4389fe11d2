// The list of events: only the rows that can be seen are in the document, whatever the length of the log.
//
// The place a reader looks at is kept as a row and how far it is from the top, never as a number of pixels from the start:
// heights above it are guesses until their rows are seen, and the text must not jump when a guess is replaced.

import { render } from "./dom.js";
import { Heights } from "./heights.js";
import { eventRow, guessHeight } from "./event_view.js";

const GUESS = 44;
const OVERSCAN = 500;
/** Browsers end at some 17 million pixels: a longer log is shown by parts of so many rows. */
const PART = 200_000;

export class Transcript {
  /** `told()` is called when the position or what is loaded changed. */
  constructor(store, told) {
    this.store = store;
    this.told = told;
    this.heights = new Heights(GUESS);
    this.base = 0;
    this.anchor = { row: 0, offset: 0 };
    this.follow = true;
    this.open = new Set();
    this.found = 0;
    this.setTop = -1;
    this.frame = 0;

    this.scroller = document.createElement("div");
    this.scroller.className = "transcript";
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "region");
    this.scroller.setAttribute("aria-label", "Transcript");
    this.space = document.createElement("div");
    this.space.className = "space";
    this.list = document.createElement("div");
    this.list.className = "events";
    this.list.setAttribute("role", "feed");
    this.list.setAttribute("aria-label", "Events");
    this.space.append(this.list);
    this.scroller.append(this.space);

    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.scroller);
    this.sizes.observe(this.list);
  }

  close() {
    this.sizes.disconnect();
    cancelAnimationFrame(this.frame);
    this.store.close();
  }

  get count() {
    return Math.max(0, Math.min(PART, this.store.lastSeq - this.base));
  }

  /** Draws before the next paint. */
  soon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** Events came: their heights can be guessed better, and a result that stands with its call takes no place. */
  loaded(first, last) {
    this.heights.resize(this.count);
    for (let seq = Math.max(first, this.base + 1); seq <= Math.min(last, this.base + this.count); seq++) {
      const event = this.store.at(seq);
      if (event === undefined) continue;
      const at = seq - this.base - 1;
      if (this.hidden(event)) this.heights.measure(at, 0);
      else this.heights.estimate(at, guessHeight(event));
    }
    this.soon();
  }

  hidden(event) {
    return event === null || (event?.kind === "tool_result" && this.store.callOf(event) !== null);
  }

  scrolled() {
    const top = this.scroller.scrollTop;
    if (Math.abs(top - this.setTop) < 1.5 || !this.scroller.clientHeight) return;
    this.setTop = top;
    const height = this.scroller.clientHeight;
    this.follow = this.heights.total() - height - top < 4 && this.base + this.count >= this.store.lastSeq;
    const row = this.heights.rowAt(top);
    this.anchor = { row, offset: this.heights.before(row) - top };
    this.shiftPart();
    this.soon();
  }

  /** At the end of a part of a very long log the next part takes over, with the same row at the same place. */
  shiftPart() {
    const last = this.store.lastSeq;
    let base = this.base;
    if (this.anchor.row < 200 && base > 0) base = Math.max(0, base - PART / 2);
    else if (this.anchor.row > PART - 400 && base + PART < last) base = Math.min(last - PART, base + PART / 2);
    if (base !== this.base) this.rebase(base, { row: this.anchor.row + this.base - base, offset: this.anchor.offset });
  }

  rebase(base, anchor) {
    this.base = base;
    this.heights = new Heights(GUESS);
    this.heights.resize(this.count);
    this.anchor = anchor;
  }

  /** Goes to an event; it stands at the top then. */
  seek(seq) {
    const last = this.store.lastSeq;
    const to = Math.max(1, Math.min(Math.floor(seq) || 1, Math.max(last, 1)));
    const event = this.store.at(to);
    const shown = event?.kind === "tool_result" ? (this.store.callOf(event)?.seq ?? to) : to;
    if (shown <= this.base || shown > this.base + PART)
      this.rebase(Math.max(0, Math.min(last - PART, shown - PART / 2)), this.anchor);
    this.follow = false;
    this.found = shown;
    this.anchor = { row: shown - this.base - 1, offset: 0 };
    this.draw();
    return to;
  }

  newest() {
    this.follow = true;
    this.draw();
  }

  key(event) {
    if (event.target.closest("input, button, summary") && event.key === " ") return;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Home") this.seek(1);
    else if (event.key === "End") this.newest();
    else if (event.key === "PageDown") this.scroller.scrollBy(0, this.scroller.clientHeight * 0.9);
    else if (event.key === "PageUp") this.scroller.scrollBy(0, -this.scroller.clientHeight * 0.9);
    else return;
    event.preventDefault();
  }

  draw() {
    // Rows that are not laid out have no height to measure.
    if (!this.scroller.isConnected || !this.scroller.clientHeight) return;
    // Rows are measured as soon as they are in the document; what that shifts may bring others into view.
    for (let round = 0; round < 4; round++) if (!this.pass()) break;
    this.told();
  }

  pass() {
    const { scroller, store } = this;
    // Half a part is left for what is to come.
    if (this.follow && this.base + PART < store.lastSeq) this.rebase(store.lastSeq - PART / 2, this.anchor);
    const { heights, count } = this;
    heights.resize(count);
    const height = scroller.clientHeight;
    const total = heights.total();
    const most = Math.max(0, total - height);
    let top = this.follow ? most : heights.before(this.anchor.row) - this.anchor.offset;
    top = Math.max(0, Math.min(top, most));
    let changed = false;
    if (count) {
      const first = heights.rowAt(Math.max(0, top - OVERSCAN));
      const last = heights.rowAt(Math.min(total, top + height + OVERSCAN));
      store.want(this.base + first + 1, this.base + last + 1);
      changed = this.rows(first, last, total);
    } else {
      store.want(1, 1);
      render(this.list);
    }
    if (changed) return true;
    if (Math.abs(scroller.scrollTop - top) > 0.5) scroller.scrollTop = top;
    this.setTop = scroller.scrollTop;
    return false;
  }

  rows(first, last, total) {
    const { heights, store } = this;
    const redraw = () => this.soon();
    const shown = [];
    const rows = [];
    for (let at = first; at <= last; at++) {
      const seq = this.base + at + 1;
      const event = store.at(seq);
      if (event !== undefined && this.hidden(event)) {
        heights.measure(at, 0);
        continue;
      }
      rows.push(at);
      shown.push(
        eventRow(seq, event, {
          total: store.ended ? store.lastSeq : -1,
          found: this.found === seq,
          open: this.open,
          redraw,
          result: event?.kind === "tool_call" ? store.resultOf(event) : null,
          over: store.ended,
        }),
      );
    }
    const held = this.list.contains(document.activeElement);
    this.space.style.setProperty("--height", `${total}px`);
    this.list.style.setProperty("--top", `${heights.before(first)}px`);
    render(this.list, shown);
    // A row that had the focus and is out of sight: keys still move the list.
    if (held && !this.list.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
    let changed = false;
    let el = this.list.firstElementChild;
    for (const at of rows) {
      // A row that is not loaded yet keeps its guess.
      if (store.at(this.base + at + 1) !== undefined && heights.measure(at, el.getBoundingClientRect().height))
        changed = true;
      el = el.nextElementSibling;
    }
    return changed;
  }

  /** The first event that can be seen. */
  position() {
    if (!this.count) return 0;
    return this.base + 1 + this.heights.rowAt(Math.max(0, this.scroller.scrollTop + 1));
  }
}
