// The events of one session. Pages of events are loaded on demand, in both directions, and the number of pages in
// memory is bounded, so that a log of any length can be read.

import { encodeSegment, get } from "./api.js";

const PAGE_SIZE = 200;
const MAX_PAGES = 24;
const MAX_PARALLEL_REQUESTS = 2;
const RETRY_MS = 3000;
const LAG_RETRY_MS = 500;

export class EventStore {
  /** `onChange(firstSeq, lastSeq)` is called after events of this range were loaded. */
  constructor(sessionId, onChange) {
    this.sessionId = sessionId;
    this.onChange = onChange;
    /** The number of the last event in the log, from the last response. */
    this.lastSeq = 0;
    /** The number of events according to the feed. If it is ahead of the log, the end of the log is requested again. */
    this.announcedCount = 0;
    this.hasEnded = false;
    this.error = null;
    this.pages = new Map();
    this.callSeqs = new Map();
    this.resultSeqs = new Map();
    this.loading = new Map();
    this.wantedPages = [];
    this.useCount = 0;
    this.timer = 0;
    this.isClosed = false;
  }

  /** Returns an event, `undefined` if it is not loaded, or `null` if the log has no event with this number. */
  eventAt(seq) {
    const page = this.pages.get(pageOf(seq));
    if (!page || seq > page.loadedTo) return undefined;
    return page.events.get(seq) ?? null;
  }

  /** Schedules the loading of a range, and aborts the requests for other pages. */
  request(first, last) {
    this.wantedPages = [];
    for (let p = pageOf(Math.max(first, 1)); p <= pageOf(Math.max(last, 1)); p++) this.wantedPages.push(p);
    for (const p of this.wantedPages) {
      const page = this.pages.get(p);
      if (page) page.lastUse = ++this.useCount;
    }
    const tail = pageOf(this.lastSeq + 1);
    for (const [p, abort] of this.loading) if (p !== tail && !this.wantedPages.includes(p)) abort.abort();
    // Delayed, because dragging the scroll bar passes many pages that are never read.
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.loadNext();
    }, 40);
  }

  /** Updates the number of events according to the feed, and requests the end of the log. */
  announce(count) {
    if (count <= this.announcedCount) return;
    this.announcedCount = count;
    this.loadNext();
  }

  loadNext() {
    if (this.isClosed) return;
    const tail = this.announcedCount > this.lastSeq ? [pageOf(this.lastSeq + 1)] : [];
    const lastSeq = Math.max(this.lastSeq, this.announcedCount);
    for (const p of [...this.wantedPages, ...tail]) {
      if (this.loading.size >= MAX_PARALLEL_REQUESTS) return;
      const page = this.pages.get(p);
      const isLoaded = page && !page.failedAt && page.loadedTo >= Math.min(endOf(p), lastSeq);
      if (isLoaded || this.loading.has(p) || (page?.notBefore ?? 0) > Date.now()) continue;
      this.load(p);
    }
  }

  /** Delays the next request for a page. */
  deferPage(page, ms) {
    page.notBefore = Date.now() + ms;
    setTimeout(() => this.loadNext(), ms + 20);
  }

  async load(p) {
    const abort = new AbortController();
    this.loading.set(p, abort);
    const page = this.pages.get(p) ?? {
      events: new Map(),
      loadedTo: p * PAGE_SIZE,
      lastUse: ++this.useCount,
      failedAt: 0,
      notBefore: 0,
    };
    const from = page.loadedTo;
    try {
      // A response can have fewer events than requested if events are large.
      for (;;) {
        const limit = endOf(p) - page.loadedTo;
        const path = `sessions/${encodeSegment(this.sessionId)}/events?after=${page.loadedTo}&limit=${limit}`;
        const response = await get(path, { signal: abort.signal });
        this.pages.set(p, page);
        this.lastSeq = response.last_seq;
        this.hasEnded = response.ended;
        for (const event of response.events) if (event.seq <= endOf(p)) this.addEvent(page, event);
        const lastReceived = response.events.at(-1)?.seq ?? Infinity;
        page.loadedTo = Math.min(lastReceived, endOf(p), response.last_seq);
        if (page.loadedTo >= Math.min(endOf(p), response.last_seq)) break;
      }
      page.failedAt = 0;
      this.error = null;
      if (page.loadedTo === from) this.deferPage(page, LAG_RETRY_MS);
    } catch (error) {
      if (error.name !== "AbortError") {
        page.failedAt = Date.now();
        this.pages.set(p, page);
        this.error = error;
        this.deferPage(page, RETRY_MS);
      }
    } finally {
      this.loading.delete(p);
    }
    this.evict();
    this.onChange(from + 1, page.loadedTo);
    this.loadNext();
  }

  addEvent(page, event) {
    page.events.set(event.seq, event);
    if (event.kind === "tool_call") addToIndex(this.callSeqs, event);
    if (event.kind === "tool_result") addToIndex(this.resultSeqs, event);
  }

  evict() {
    while (this.pages.size > MAX_PAGES) {
      let oldest = null;
      for (const [p, page] of this.pages) {
        if (
          !this.wantedPages.includes(p) &&
          !this.loading.has(p) &&
          (oldest === null || page.lastUse < this.pages.get(oldest).lastUse)
        )
          oldest = p;
      }
      if (oldest === null) return;
      for (const event of this.pages.get(oldest).events.values()) {
        if (event.kind === "tool_call") removeFromIndex(this.callSeqs, event);
        if (event.kind === "tool_result") removeFromIndex(this.resultSeqs, event);
      }
      this.pages.delete(oldest);
    }
  }

  /** Returns the result of a call, if it is loaded. Agents can reuse call ids: the nearest result is returned. */
  resultOf(call) {
    const result = nextSeq(this.resultSeqs.get(call.call_id), call.seq);
    const nextCall = nextSeq(this.callSeqs.get(call.call_id), call.seq);
    return result !== undefined && (nextCall === undefined || result < nextCall) ? this.eventAt(result) : null;
  }

  /** Returns the call that a result belongs to, if it is loaded. */
  callOf(result) {
    const call = previousSeq(this.callSeqs.get(result.call_id), result.seq);
    const previousResult = previousSeq(this.resultSeqs.get(result.call_id), result.seq);
    return call !== undefined && (previousResult === undefined || previousResult < call) ? this.eventAt(call) : null;
  }

  close() {
    this.isClosed = true;
    this.wantedPages = [];
    clearTimeout(this.timer);
    for (const abort of this.loading.values()) abort.abort();
  }
}

const pageOf = (seq) => Math.floor((seq - 1) / PAGE_SIZE);
const endOf = (p) => (p + 1) * PAGE_SIZE;

const nextSeq = (seqs, seq) => seqs?.[lowerBound(seqs, seq + 1)];
const previousSeq = (seqs, seq) => seqs?.[lowerBound(seqs, seq) - 1];

/** Returns the index of the first number that is not less than `seq`. */
function lowerBound(seqs, seq) {
  let low = 0;
  let high = seqs.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (seqs[mid] < seq) low = mid + 1;
    else high = mid;
  }
  return low;
}

function addToIndex(map, { call_id: id, seq }) {
  const seqs = map.get(id);
  if (!seqs) map.set(id, [seq]);
  else {
    const index = lowerBound(seqs, seq);
    if (seqs[index] !== seq) seqs.splice(index, 0, seq);
  }
}

function removeFromIndex(map, { call_id: id, seq }) {
  const seqs = map.get(id);
  const index = seqs ? lowerBound(seqs, seq) : -1;
  if (index < 0 || seqs[index] !== seq) return;
  seqs.splice(index, 1);
  if (!seqs.length) map.delete(id);
}
