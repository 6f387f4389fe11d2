// This browser's sign-in: a token in the storage of this origin, which, unlike a cookie, is that of this port alone.

const KEY = "vik.sign-in";

/** Where the browser keeps nothing, the sign-in is this page's. */
let here = null;
const watchers = new Set();

export const signIn = {
  /** What goes with requests; `null` where this browser is not signed in. */
  token() {
    try {
      return localStorage.getItem(KEY) ?? here;
    } catch {
      return here;
    }
  },
  /** The id by which lists of sign-ins name this one. */
  id: () => signIn.token()?.split(".")[0] ?? null,
  set(token) {
    here = token;
    try {
      if (token === null) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, token);
    } catch {
      // It holds until this page is left.
    }
    changed();
  },
  /** Calls `watcher()` when this browser was signed in or out, here or in another tab. */
  watch: (watcher) => watchers.add(watcher),
};

const changed = () => {
  for (const watcher of watchers) watcher();
};

addEventListener("storage", (event) => {
  // `null`: all of the storage was cleared.
  if (event.key !== KEY && event.key !== null) return;
  here = null;
  changed();
});

/**
 * Takes the code of the link out of the address, and out of the history, before anything else is done with it.
 * It is in the fragment, which a browser sends to nobody.
 */
export function takeCode() {
  if (location.pathname !== "/login") return null;
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  history.replaceState(null, "", "/");
  return code ?? "";
}
