// A virtual list of events: only the visible rows are in the document, so that a log of any length can be shown.
//
// The scroll position is kept as a row and its offset from the top, not as pixels from the start: the heights of rows
// are estimates until the rows are measured, and the text must not jump when an estimate is replaced.

import { render } from "./dom.js";
import { Heights } from "./heights.js";
import { estimateHeight, eventRow } from "./event_view.js";

const DEFAULT_HEIGHT = 44;
const OVERSCAN = 500;
/** Elements cannot be higher than about 17 million pixels: of a longer log, a window of this many rows is shown. */
const WINDOW_ROWS = 200_000;

export class Transcript {
  /** `onChange()` is called when the position or the loaded events have changed. */
  constructor(store, onChange) {
    this.store = store;
    this.onChange = onChange;
    this.heights = new Heights(DEFAULT_HEIGHT);
    this.base = 0;
    this.anchor = { row: 0, offset: 0 };
    this.isFollowing = true;
    this.expanded = new Set();
    this.highlightedSeq = 0;
    this.lastScrollTop = -1;
    this.frame = 0;

    this.scroller = document.createElement("div");
    this.scroller.className = "transcript";
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "region");
    this.scroller.setAttribute("aria-label", "Transcript");
    this.spacer = document.createElement("div");
    this.spacer.className = "spacer";
    this.list = document.createElement("div");
    this.list.className = "events";
    this.list.setAttribute("role", "feed");
    this.list.setAttribute("aria-label", "Events");
    this.spacer.append(this.list);
    this.scroller.append(this.spacer);

    this.scroller.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.onKeydown(event));
    this.resizeObserver = new ResizeObserver(() => this.draw());
    this.resizeObserver.observe(this.scroller);
    this.resizeObserver.observe(this.list);
  }

  close() {
    this.resizeObserver.disconnect();
    cancelAnimationFrame(this.frame);
    this.store.close();
  }

  get count() {
    return Math.max(0, Math.min(WINDOW_ROWS, this.store.lastSeq - this.base));
  }

  scheduleDraw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** Improves the estimated heights of loaded events. A result that is shown with its call has no height. */
  onEventsLoaded(first, last) {
    this.heights.resize(this.count);
    for (let seq = Math.max(first, this.base + 1); seq <= Math.min(last, this.base + this.count); seq++) {
      const event = this.store.eventAt(seq);
      if (event === undefined) continue;
      const index = seq - this.base - 1;
      if (this.isMerged(event)) this.heights.measure(index, 0);
      else this.heights.estimate(index, estimateHeight(event));
    }
    this.scheduleDraw();
  }

  isMerged(event) {
    return event === null || (event?.kind === "tool_result" && this.store.callOf(event) !== null);
  }

  onScroll() {
    const top = this.scroller.scrollTop;
    if (Math.abs(top - this.lastScrollTop) < 1.5 || !this.scroller.clientHeight) return;
    this.lastScrollTop = top;
    const height = this.scroller.clientHeight;
    this.isFollowing = this.heights.total() - height - top < 4 && this.base + this.count >= this.store.lastSeq;
    const row = this.heights.rowAtOffset(top);
    this.anchor = { row, offset: this.heights.offsetOf(row) - top };
    this.shiftWindow();
    this.scheduleDraw();
  }

  /** Moves the window of a very long log when its edge is near. The first visible row keeps its position. */
  shiftWindow() {
    const last = this.store.lastSeq;
    let base = this.base;
    if (this.anchor.row < 200 && base > 0) base = Math.max(0, base - WINDOW_ROWS / 2);
    else if (this.anchor.row > WINDOW_ROWS - 400 && base + WINDOW_ROWS < last)
      base = Math.min(last - WINDOW_ROWS, base + WINDOW_ROWS / 2);
    if (base !== this.base) this.rebase(base, { row: this.anchor.row + this.base - base, offset: this.anchor.offset });
  }

  rebase(base, anchor) {
    this.base = base;
    this.heights = new Heights(DEFAULT_HEIGHT);
    this.heights.resize(this.count);
    this.anchor = anchor;
  }

  /** Scrolls an event to the top, and returns its number within the bounds of the log. */
  seek(seq) {
    const last = this.store.lastSeq;
    const target = Math.max(1, Math.min(Math.floor(seq) || 1, Math.max(last, 1)));
    const event = this.store.eventAt(target);
    const shownSeq = event?.kind === "tool_result" ? (this.store.callOf(event)?.seq ?? target) : target;
    if (shownSeq <= this.base || shownSeq > this.base + WINDOW_ROWS)
      this.rebase(Math.max(0, Math.min(last - WINDOW_ROWS, shownSeq - WINDOW_ROWS / 2)), this.anchor);
    this.isFollowing = false;
    this.highlightedSeq = shownSeq;
    this.anchor = { row: shownSeq - this.base - 1, offset: 0 };
    this.draw();
    return target;
  }

  scrollToNewest() {
    this.isFollowing = true;
    this.draw();
  }

  onKeydown(event) {
    if (event.target.closest("input, button, summary") && event.key === " ") return;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Home") this.seek(1);
    else if (event.key === "End") this.scrollToNewest();
    else if (event.key === "PageDown") this.scroller.scrollBy(0, this.scroller.clientHeight * 0.9);
    else if (event.key === "PageUp") this.scroller.scrollBy(0, -this.scroller.clientHeight * 0.9);
    else return;
    event.preventDefault();
  }

  draw() {
    // Rows without layout cannot be measured.
    if (!this.scroller.isConnected || !this.scroller.clientHeight) return;
    // Rows are measured when they are in the document, which can bring other rows into view.
    for (let pass = 0; pass < 4; pass++) if (!this.layout()) break;
    this.onChange();
  }

  layout() {
    const { scroller, store } = this;
    // Half of the window is left for new events.
    if (this.isFollowing && this.base + WINDOW_ROWS < store.lastSeq)
      this.rebase(store.lastSeq - WINDOW_ROWS / 2, this.anchor);
    const { heights, count } = this;
    heights.resize(count);
    const height = scroller.clientHeight;
    const total = heights.total();
    const maxTop = Math.max(0, total - height);
    let top = this.isFollowing ? maxTop : heights.offsetOf(this.anchor.row) - this.anchor.offset;
    top = Math.max(0, Math.min(top, maxTop));
    let changed = false;
    if (count) {
      const first = heights.rowAtOffset(Math.max(0, top - OVERSCAN));
      const last = heights.rowAtOffset(Math.min(total, top + height + OVERSCAN));
      store.request(this.base + first + 1, this.base + last + 1);
      changed = this.renderRows(first, last, total);
    } else {
      store.request(1, 1);
      render(this.list);
    }
    if (changed) return true;
    if (Math.abs(scroller.scrollTop - top) > 0.5) scroller.scrollTop = top;
    this.lastScrollTop = scroller.scrollTop;
    return false;
  }

  renderRows(first, last, total) {
    const { heights, store } = this;
    const redraw = () => this.scheduleDraw();
    const views = [];
    const rows = [];
    for (let index = first; index <= last; index++) {
      const seq = this.base + index + 1;
      const event = store.eventAt(seq);
      if (event !== undefined && this.isMerged(event)) {
        heights.measure(index, 0);
        continue;
      }
      rows.push(index);
      views.push(
        eventRow(seq, event, {
          total: store.hasEnded ? store.lastSeq : -1,
          isHighlighted: this.highlightedSeq === seq,
          expanded: this.expanded,
          redraw,
          result: event?.kind === "tool_call" ? store.resultOf(event) : null,
          hasEnded: store.hasEnded,
        }),
      );
    }
    const hadFocus = this.list.contains(document.activeElement);
    this.spacer.style.setProperty("--height", `${total}px`);
    this.list.style.setProperty("--top", `${heights.offsetOf(first)}px`);
    render(this.list, views);
    // If the focused row was removed, the focus moves to the list, so that its keys still work.
    if (hadFocus && !this.list.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
    let changed = false;
    let el = this.list.firstElementChild;
    for (const index of rows) {
      // A row that is not loaded yet keeps its estimate.
      const isLoaded = store.eventAt(this.base + index + 1) !== undefined;
      if (isLoaded && heights.measure(index, el.getBoundingClientRect().height)) changed = true;
      el = el.nextElementSibling;
    }
    return changed;
  }

  /** Returns the number of the first visible event. */
  firstVisibleSeq() {
    if (!this.count) return 0;
    return this.base + 1 + this.heights.rowAtOffset(Math.max(0, this.scroller.scrollTop + 1));
  }
}
