// What every page shows: the state of the daemon. Kept up to date by the feed.

import { coalesce, get } from "./api.js";
import { follow } from "./feed.js";
import { signIn } from "./sign_in.js";

const watchers = new Set();

export const store = {
  /** `Status`, once it is there. */
  status: null,
  /** Why it could not be loaded the last time. */
  problem: null,
  /** Whether the feed is connected; `null`: not known yet. */
  live: null,
  /** Loads the state anew, soon; pages that load more do so too. */
  reload(waitMs) {
    load(waitMs);
    tell("state", null);
  },
  /** Calls `watcher(type, fact)` for each fact, and with `loaded` or `link` when this store changed. */
  watch(watcher) {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  },
};

const tell = (type, fact) => {
  for (const watcher of [...watchers]) watcher(type, fact);
};

const load = coalesce(async () => {
  try {
    const status = await get("state");
    status.sessions.sort(
      (a, b) => (a.since < b.since ? -1 : a.since > b.since ? 1 : 0) || (a.session_id < b.session_id ? -1 : 1),
    );
    store.status = status;
    store.problem = null;
  } catch (problem) {
    store.problem = problem;
  }
  tell("loaded", null);
});

/** A session tells about itself: there is no need to ask for the whole state. */
function place(session) {
  const sessions = store.status?.sessions;
  const at = sessions?.findIndex((other) => other.session_id === session.session_id) ?? -1;
  if (at < 0) return false;
  sessions[at] = session;
  return true;
}

let heardAt = Date.now();

export function start() {
  if (signIn.token()) load(0);
  follow(
    (type, fact) => {
      heardAt = Date.now();
      if (type !== "session" || !place(fact)) load();
      tell(type, fact);
    },
    (live) => {
      if (store.live === live) return;
      store.live = live;
      tell("link", null);
    },
  );
  // A connection may be dead without anybody noticing: in a silence the state is asked for now and then.
  setInterval(() => {
    if (!document.hidden && signIn.token() && Date.now() - heardAt > 20_000) {
      heardAt = Date.now();
      load();
    }
  }, 5000);
}
