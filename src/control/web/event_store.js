// The events of one session, as far as they are needed: pages are loaded on demand, in both directions, and only a
// bounded number of them is kept, so that a log of any length can be read.

import { get, part } from "./api.js";

const SIZE = 200;
const KEPT = 24;
const AT_ONCE = 2;
const RETRY_MS = 3000;
const BEHIND_MS = 500;

export class EventStore {
  /** `changed(firstSeq, lastSeq)` is called when events of that range came. */
  constructor(sessionId, changed) {
    this.sessionId = sessionId;
    this.changed = changed;
    /** The last event in the log, as the log itself told. */
    this.lastSeq = 0;
    /** How many there are by what the feed told: it may be ahead of the log, which is then asked again. */
    this.announced = 0;
    this.ended = false;
    this.problem = null;
    this.pages = new Map();
    this.calls = new Map();
    this.results = new Map();
    this.loading = new Map();
    this.wanted = [];
    this.uses = 0;
    this.timer = 0;
    this.closed = false;
  }

  /** An event; `undefined`: not loaded; `null`: the log has none with this number. */
  at(seq) {
    const page = this.pages.get(pageOf(seq));
    if (!page || seq > page.upTo) return undefined;
    return page.events.get(seq) ?? null;
  }

  /** Sees to it that these are loaded, and forgets requests for others. */
  want(first, last) {
    this.wanted = [];
    for (let p = pageOf(Math.max(first, 1)); p <= pageOf(Math.max(last, 1)); p++) this.wanted.push(p);
    for (const p of this.wanted) {
      const page = this.pages.get(p);
      if (page) page.used = ++this.uses;
    }
    const tail = pageOf(this.lastSeq + 1);
    for (const [p, abort] of this.loading) if (p !== tail && !this.wanted.includes(p)) abort.abort();
    // Not at once: who drags the scroll bar passes many pages, and looks at none of them.
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.next();
    }, 40);
  }

  /** There are so many events, by what the feed tells: the end of the log is asked for. */
  grow(count) {
    if (count <= this.announced) return;
    this.announced = count;
    this.next();
  }

  next() {
    if (this.closed) return;
    const wanted = this.announced > this.lastSeq ? [...this.wanted, pageOf(this.lastSeq + 1)] : this.wanted;
    for (const p of wanted) {
      if (this.loading.size >= AT_ONCE) return;
      const page = this.pages.get(p);
      const full = page && !page.failedAt && page.upTo >= Math.min(endOf(p), Math.max(this.lastSeq, this.announced));
      if (full || this.loading.has(p) || (page?.notBefore ?? 0) > Date.now()) continue;
      this.load(p);
    }
  }

  /** Leaves a page alone for a while. */
  rest(page, ms) {
    page.notBefore = Date.now() + ms;
    setTimeout(() => this.next(), ms + 20);
  }

  async load(p) {
    const abort = new AbortController();
    this.loading.set(p, abort);
    const page = this.pages.get(p) ?? {
      events: new Map(),
      upTo: p * SIZE,
      used: ++this.uses,
      failedAt: 0,
      notBefore: 0,
    };
    const from = page.upTo;
    try {
      // An answer may be shorter than asked for, where events are large.
      for (;;) {
        const asked = `sessions/${part(this.sessionId)}/events?after=${page.upTo}&limit=${endOf(p) - page.upTo}`;
        const answer = await get(asked, abort.signal);
        this.pages.set(p, page);
        this.lastSeq = answer.last_seq;
        this.ended = answer.ended;
        for (const event of answer.events) if (event.seq <= endOf(p)) this.keep(page, event);
        const got = answer.events.at(-1)?.seq ?? Infinity;
        page.upTo = Math.min(got, endOf(p), answer.last_seq);
        if (page.upTo >= Math.min(endOf(p), answer.last_seq)) break;
      }
      page.failedAt = 0;
      this.problem = null;
      if (page.upTo === from) this.rest(page, BEHIND_MS);
    } catch (error) {
      if (error.name !== "AbortError") {
        page.failedAt = Date.now();
        this.pages.set(p, page);
        this.problem = error;
        this.rest(page, RETRY_MS);
      }
    } finally {
      this.loading.delete(p);
    }
    this.evict();
    this.changed(from + 1, page.upTo);
    this.next();
  }

  keep(page, event) {
    page.events.set(event.seq, event);
    if (event.kind === "tool_call") note(this.calls, event);
    if (event.kind === "tool_result") note(this.results, event);
  }

  evict() {
    while (this.pages.size > KEPT) {
      let oldest = null;
      for (const [p, page] of this.pages) {
        if (
          !this.wanted.includes(p) &&
          !this.loading.has(p) &&
          (oldest === null || page.used < this.pages.get(oldest).used)
        )
          oldest = p;
      }
      if (oldest === null) return;
      for (const event of this.pages.get(oldest).events.values()) {
        if (event.kind === "tool_call") drop(this.calls, event);
        if (event.kind === "tool_result") drop(this.results, event);
      }
      this.pages.delete(oldest);
    }
  }

  /** The result of a call, where it is loaded. Agents may use a call's name again: the nearest one counts. */
  resultOf(call) {
    const result = after(this.results.get(call.call_id), call.seq);
    const again = after(this.calls.get(call.call_id), call.seq);
    return result !== undefined && (again === undefined || result < again) ? this.at(result) : null;
  }

  /** The call that a result answers, where it is loaded. */
  callOf(result) {
    const call = before(this.calls.get(result.call_id), result.seq);
    const other = before(this.results.get(result.call_id), result.seq);
    return call !== undefined && (other === undefined || other < call) ? this.at(call) : null;
  }

  close() {
    this.closed = true;
    this.wanted = [];
    clearTimeout(this.timer);
    for (const abort of this.loading.values()) abort.abort();
  }
}

const pageOf = (seq) => Math.floor((seq - 1) / SIZE);
const endOf = (p) => (p + 1) * SIZE;

const after = (seqs, seq) => seqs?.[search(seqs, seq + 1)];
const before = (seqs, seq) => seqs?.[search(seqs, seq) - 1];

/** The place of the first number that is not below `seq`. */
function search(seqs, seq) {
  let low = 0;
  let high = seqs.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (seqs[mid] < seq) low = mid + 1;
    else high = mid;
  }
  return low;
}

function note(map, { call_id: id, seq }) {
  const seqs = map.get(id);
  if (!seqs) map.set(id, [seq]);
  else {
    const at = search(seqs, seq);
    if (seqs[at] !== seq) seqs.splice(at, 0, seq);
  }
}

function drop(map, { call_id: id, seq }) {
  const seqs = map.get(id);
  const at = seqs ? search(seqs, seq) : -1;
  if (at < 0 || seqs[at] !== seq) return;
  seqs.splice(at, 1);
  if (!seqs.length) map.delete(id);
}
