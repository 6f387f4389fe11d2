// The search in the events of a session. The daemon searches, a bounded number of events for each request.

import { encodeSegment, get } from "./api.js";

/** The number of matches that are loaded at first, and with each "Load more". */
const PAGE_SIZE = 200;
const TYPING_MS = 250;
const GROWTH_MS = 1000;

/** The filters: the query parameters of each. */
export const FILTERS = {
  "": ["All", {}],
  errors: ["Errors", { errors: "true" }],
  tools: ["Tool calls", { kinds: "tool_call,tool_result" }],
  messages: ["Messages", { kinds: "message,completed" }],
};

export class EventSearch {
  /** `onChange()` is called when matches were found. `current` is the number of the event to start at. */
  constructor(sessionId, { q = "", filter = "", current = 0 }, onChange) {
    this.sessionId = sessionId;
    this.onChange = onChange;
    this.q = q;
    this.filter = Object.hasOwn(FILTERS, filter) ? filter : "";
    this.current = current;
    this.reset();
  }

  reset() {
    this.controller?.abort();
    this.controller = null;
    clearTimeout(this.timer);
    this.timer = 0;
    this.matches = [];
    this.wantedCount = PAGE_SIZE;
    this.scannedTo = 0;
    this.lastSeq = 0;
    this.error = null;
  }

  get isActive() {
    return this.q !== "" || this.filter !== "";
  }

  get isSearching() {
    return this.timer !== 0 || this.controller !== null;
  }

  /** Returns whether events remain that are not searched yet. */
  get hasMore() {
    return this.scannedTo < this.lastSeq;
  }

  change(changed) {
    Object.assign(this, changed);
    this.current = 0;
    this.reset();
    if (this.isActive) this.schedule(TYPING_MS);
  }

  schedule(ms = 0) {
    if (this.isSearching) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.run();
    }, ms);
  }

  /** Searches the events that a running session has written since. */
  onGrowth(lastSeq) {
    if (!this.isActive || lastSeq <= this.scannedTo) return;
    this.lastSeq = Math.max(this.lastSeq, lastSeq);
    if (this.matches.length < this.wantedCount) this.schedule(GROWTH_MS);
  }

  loadMore() {
    this.wantedCount = this.matches.length + PAGE_SIZE;
    this.schedule();
  }

  async run() {
    const controller = new AbortController();
    this.controller = controller;
    const params = new URLSearchParams({ limit: String(PAGE_SIZE), ...FILTERS[this.filter][1] });
    if (this.q) params.set("q", this.q);
    try {
      do {
        params.set("after", String(this.scannedTo));
        const path = `sessions/${encodeSegment(this.sessionId)}/events?${params}`;
        const page = await get(path, { signal: controller.signal });
        this.matches.push(...page.events);
        this.lastSeq = page.last_seq;
        this.error = null;
        const scannedTo = page.scanned_to ?? page.last_seq;
        if (scannedTo <= this.scannedTo) break;
        this.scannedTo = scannedTo;
        this.onChange();
      } while (this.hasMore && this.matches.length < this.wantedCount);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error = error;
    } finally {
      if (this.controller === controller) this.controller = null;
    }
    this.onChange();
  }

  /** Returns the matches as `{ event, result }`: the result of a call is shown with the call if both match. */
  rows() {
    const rows = [];
    const openCalls = new Map();
    for (const event of this.matches) {
      const call = event.kind === "tool_result" ? openCalls.get(event.call_id) : undefined;
      if (call) {
        call.result = event;
        openCalls.delete(event.call_id);
        continue;
      }
      const row = { event, result: null };
      if (event.kind === "tool_call") openCalls.set(event.call_id, row);
      rows.push(row);
    }
    return rows;
  }

  /** Moves to the next or previous match, from the last to the first, and returns its number, or 0 without matches. */
  move(offset) {
    const seqs = this.rows().map(({ event }) => event.seq);
    if (!seqs.length) return 0;
    const index = seqs.indexOf(this.current);
    const next = index < 0 ? (offset > 0 ? 0 : seqs.length - 1) : (index + offset + seqs.length) % seqs.length;
    this.current = seqs[next];
    return this.current;
  }

  close() {
    this.reset();
  }
}
