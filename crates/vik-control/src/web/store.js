// The state of the daemon, which every page shows. The feed keeps it up to date.

import { coalesce, get } from "./api.js";
import { subscribeToFeed } from "./feed.js";
import { signIn } from "./sign_in.js";

const listeners = new Set();

export const store = {
  /** The `Status`, or `null` before the first response. */
  status: null,
  /** The error of the last request, if it failed. */
  error: null,
  /** Whether the feed is connected; `null` before the first attempt. */
  isConnected: null,
  /** Schedules a reload of the state and of the data of the page. */
  reload(waitMs) {
    load(waitMs);
    notify("state", null);
  },
  /** Calls `listener(type, fact)` for each fact, and with `loaded` or `connection` when this store has changed. */
  subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

const notify = (type, fact) => {
  for (const listener of [...listeners]) listener(type, fact);
};

const load = coalesce(async () => {
  try {
    const status = await get("state");
    status.sessions.sort(
      (a, b) => (a.since < b.since ? -1 : a.since > b.since ? 1 : 0) || (a.session_id < b.session_id ? -1 : 1),
    );
    store.status = status;
    store.error = null;
  } catch (error) {
    store.error = error;
  }
  notify("loaded", null);
});

/** Replaces a session of the state, so that the whole state need not be loaded. Returns whether the state has it. */
function updateSession(session) {
  const sessions = store.status?.sessions;
  const index = sessions?.findIndex((candidate) => candidate.session_id === session.session_id) ?? -1;
  if (index < 0) return false;
  sessions[index] = session;
  return true;
}

let lastFactAt = Date.now();

export function start() {
  if (signIn.getToken()) load(0);
  subscribeToFeed(
    (type, fact) => {
      lastFactAt = Date.now();
      if (type !== "session" || !updateSession(fact)) load();
      notify(type, fact);
    },
    (isConnected) => {
      if (store.isConnected === isConnected) return;
      store.isConnected = isConnected;
      notify("connection", null);
    },
  );
  // A broken connection can go unnoticed: without facts, the state is polled.
  setInterval(() => {
    if (!document.hidden && signIn.getToken() && Date.now() - lastFactAt > 20_000) {
      lastFactAt = Date.now();
      load();
    }
  }, 5000);
}
