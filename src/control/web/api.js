// The HTTP API.

import { learnClock } from "./format.js";
import { signIn } from "./sign_in.js";

const ROOT = "/api/v1/";

/** Why a request failed, in the server's words where it gave any. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `the server answered with status ${status}`);
    this.status = status;
    this.code = body?.code ?? null;
    this.hint = body?.hint ?? null;
  }
}

/** An id as one part of a path. */
export const part = (id) => encodeURIComponent(String(id).toWellFormed?.() ?? String(id));

/**
 * Sends a request with this browser's token, and nothing that the browser adds by itself. Returns the answer when it is
 * good. Where the daemon does not know the token any more, this browser is signed out.
 */
export async function request(path, { headers, ...options } = {}) {
  const token = signIn.token();
  if (token === null && path !== "sign-in") throw new Problem(401, { detail: "This browser is not signed in." });
  const authorization = token === null ? {} : { Authorization: `Bearer ${token}` };
  let answer;
  try {
    answer = await fetch(ROOT + path, {
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      headers: { ...authorization, ...headers },
      ...options,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "Cannot reach the daemon.", hint: "Check that it is running: `vik status`." });
  }
  learnClock(answer.headers.get("date"));
  if (answer.ok) return answer;
  // Another tab may have signed in meanwhile.
  if (answer.status === 401 && path !== "sign-in" && signIn.token() === token) signIn.set(null);
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // Not from Vik, as from a proxy in between: the status must do.
  }
  throw new Problem(answer.status, body);
}

const ask = async (path, options) => (await request(path, options)).json();

export const get = (path, signal) => ask(path, { signal });

export const post = (path, body = {}) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

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
