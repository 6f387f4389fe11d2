// The HTTP API, and the feed of what happens.

import { learnClock } from "./format.js";

const ROOT = "/api/v1/";

/** Why a request failed, in the server's words where it gave any. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `the server answered ${status}`);
    this.status = status;
    this.code = body?.code ?? null;
    this.hint = body?.hint ?? null;
  }
}

/** An id as one part of a path. */
export const part = (id) => encodeURIComponent(String(id).toWellFormed?.() ?? String(id));

let onUnauthorized = () => {};

/** Is called when the server does not know this browser. */
export function whenUnauthorized(handler) {
  onUnauthorized = handler;
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(ROOT + path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The daemon does not answer.", hint: "Is it running? `vik status` tells." });
  }
  learnClock(answer.headers.get("date"));
  if (answer.status === 401) onUnauthorized();
  if (answer.ok) return answer.json();
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // Not from Vik, as from a proxy in between: the status must do.
  }
  throw new Problem(answer.status, body);
}

export const get = (path, signal) => ask(path, { signal });

export const post = (path, body = {}) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

const TYPES = ["reset", "state", "pulled", "session", "session_ended", "issue"];

/**
 * Follows the feed, for ever. `onFact(type, fact)` for each fact, `onLink(live)` when the connection comes or goes.
 * After a gap it tells `reset`, since nobody knows what was missed.
 */
export function follow(onFact, onLink) {
  let source = null;
  let waitMs = 1000;
  let retry = 0;
  let wasLost = false;
  let asleep = 0;

  const lost = () => {
    wasLost = true;
    onLink(false);
  };
  const open = () => {
    clearTimeout(retry);
    source?.close();
    source = new EventSource(`${ROOT}events`);
    source.onopen = () => {
      waitMs = 1000;
      onLink(true);
      if (wasLost) onFact("reset", null);
      wasLost = false;
    };
    source.onerror = () => {
      lost();
      // Where the browser gives up (an answer that is no stream), somebody has to try again.
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(retry);
      retry = setTimeout(open, waitMs);
      waitMs = Math.min(waitMs * 2, 15_000);
    };
    for (const type of TYPES) {
      source.addEventListener(type, (event) => {
        let fact = null;
        try {
          fact = JSON.parse(event.data);
        } catch {
          // A fact that cannot be read still tells that something happened.
        }
        onFact(fact ? type : "reset", fact);
      });
    }
  };
  open();
  window.addEventListener("online", open);
  // A browser has six connections for a server: forgotten tabs must not hold them all.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(asleep);
    if (document.hidden) {
      asleep = setTimeout(() => {
        source.close();
        clearTimeout(retry);
        wasLost = true;
      }, 60_000);
    } else if (source.readyState === EventSource.CLOSED) open();
  });
}

/** `run` at most once at a time, and once more where it was asked for meanwhile; calls close together are one. */
export function coalesce(run, waitMs = 150) {
  let timer = 0;
  let busy = false;
  let again = false;
  const start = async () => {
    timer = 0;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      await run();
    } finally {
      busy = false;
      if (again) {
        again = false;
        soon();
      }
    }
  };
  const soon = (ms = waitMs) => {
    if (timer) return;
    timer = setTimeout(start, ms);
  };
  soon.stop = () => clearTimeout(timer);
  return soon;
}
