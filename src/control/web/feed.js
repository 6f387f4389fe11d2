// The feed of what happens: server-sent events, read by `fetch`, since only that can send a token.

import { request } from "./api.js";
import { signIn } from "./sign_in.js";
import { readEvents } from "./sse.js";

const TYPES = new Set(["reset", "state", "pulled", "session", "session_ended", "issue"]);
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15_000;
/** The daemon says every 15 seconds that the connection lives. */
const SILENT_MS = 50_000;

/**
 * Follows the feed, for ever. `onFact(type, fact)` for each fact, `onLink(live)` when the connection comes or goes.
 * After a gap it tells `reset`, since nobody knows what was missed.
 */
export function follow(onFact, onLink) {
  let current = null;
  let lastId = null;
  let waitMs = FIRST_WAIT_MS;
  let retry = 0;
  let wasLost = false;
  let asleep = 0;

  const close = () => {
    clearTimeout(retry);
    current?.abort();
    current = null;
  };
  const onEvent = ({ id, type, data }) => {
    lastId = id ?? lastId;
    if (!TYPES.has(type)) return;
    let fact = null;
    try {
      fact = JSON.parse(data);
    } catch {
      // A fact that cannot be read still tells that something happened.
    }
    onFact(fact ? type : "reset", fact);
  };
  const open = async () => {
    close();
    // Until somebody signs in there is nothing to ask for.
    if (!signIn.token()) return;
    const own = new AbortController();
    current = own;
    let silence = 0;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => own.abort(), SILENT_MS);
    };
    try {
      alive();
      const headers = { Accept: "text/event-stream", ...(lastId === null ? {} : { "Last-Event-ID": lastId }) };
      const answer = await request("events", { headers, signal: own.signal });
      if (current !== own) return;
      waitMs = FIRST_WAIT_MS;
      onLink(true);
      if (wasLost) onFact("reset", null);
      wasLost = false;
      await readEvents(answer.body, onEvent, alive);
    } catch {
      // Whatever ended it: it is opened again.
    } finally {
      clearTimeout(silence);
    }
    // Closed on purpose, or another one was opened meanwhile.
    if (current !== own) return;
    current = null;
    wasLost = true;
    onLink(false);
    if (!signIn.token()) return;
    retry = setTimeout(open, waitMs);
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
  };
  open();
  signIn.watch(() => {
    wasLost = true;
    open();
  });
  addEventListener("online", open);
  // A browser has six connections for a server: forgotten tabs must not hold them all.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(asleep);
    if (document.hidden) {
      asleep = setTimeout(() => {
        close();
        wasLost = true;
      }, 60_000);
    } else if (!current) open();
  });
}
