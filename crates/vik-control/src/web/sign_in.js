// The sign-in of this browser: a token in the storage of this origin. Unlike a cookie, it is not shared between ports.

const STORAGE_KEY = "vik.sign-in";
/** The stored value starts with this mark if it is the API token. The token of a sign-in starts with an id. */
const API_MARK = ":";

/** The token if the browser denies access to its storage. It is lost when the page is closed. */
let memoryToken = null;
const listeners = new Set();

const API_MARK_AT_START = new RegExp(`^${API_MARK}`);

function getStored() {
  try {
    return localStorage.getItem(STORAGE_KEY) ?? memoryToken;
  } catch {
    return memoryToken;
  }
}

export const signIn = {
  /** Returns the token for requests, or `null` if this browser is not signed in. */
  getToken: () => getStored()?.replace(API_MARK_AT_START, "") ?? null,
  /** Returns whether this browser uses the API token instead of a sign-in of its own. */
  hasApiToken: () => getStored()?.startsWith(API_MARK) ?? false,
  /** Returns the id of this sign-in in lists of sign-ins, or `null`. */
  getId: () => (signIn.hasApiToken() ? null : (getStored()?.split(".")[0] ?? null)),
  setApiToken: (token) => signIn.setToken(API_MARK + token),
  setToken(token) {
    memoryToken = token;
    try {
      if (token === null) localStorage.removeItem(STORAGE_KEY);
      else localStorage.setItem(STORAGE_KEY, token);
    } catch {
      // The token is kept until the page is closed.
    }
    notifyListeners();
  },
  /** Calls `listener()` when this browser is signed in or out, here or in another tab. */
  subscribe: (listener) => listeners.add(listener),
};

const notifyListeners = () => {
  for (const listener of listeners) listener();
};

addEventListener("storage", (event) => {
  // The key is `null` if the whole storage was cleared.
  if (event.key !== STORAGE_KEY && event.key !== null) return;
  memoryToken = null;
  notifyListeners();
});

/**
 * Returns the code of a sign-in link and removes it from the address and the history, or returns `null` on other pages.
 * The code is in the fragment, which browsers do not send to servers.
 */
export function takeSignInCode() {
  if (location.pathname !== "/login") return null;
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  history.replaceState(null, "", "/");
  return code ?? "";
}
