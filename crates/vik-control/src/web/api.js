// The HTTP API.

import { updateClockSkew } from "./format.js";
import { signIn } from "./sign_in.js";

const API_ROOT = "/api/v1/";

/** A failed request, with the message, code and hint of the response if it contained a problem document. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `the server answered with status ${status}`);
    this.status = status;
    this.code = body?.code ?? null;
    this.hint = body?.hint ?? null;
  }
}

/** Encodes an id as one segment of a URL path. */
export const encodeSegment = (id) => encodeURIComponent(String(id).toWellFormed?.() ?? String(id));

/**
 * Sends a request with this browser's token, or with `token`, without cookies or other credentials. Returns a successful
 * response, and throws an `ApiError` otherwise. If the daemon rejects the token of this browser, it is signed out.
 */
export async function request(path, { headers, token = signIn.getToken(), ...options } = {}) {
  if (token === null && path !== "sign-in") throw new ApiError(401, { detail: "This browser is not signed in." });
  const authorization = token === null ? {} : { Authorization: `Bearer ${token}` };
  let response;
  try {
    response = await fetch(API_ROOT + path, {
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      headers: { ...authorization, ...headers },
      ...options,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { detail: "Cannot reach the daemon.", hint: "Check that it is running: `vik status`." });
  }
  updateClockSkew(response.headers.get("date"));
  if (response.ok) return response;
  // If the token has changed, another tab has signed in since.
  if (response.status === 401 && path !== "sign-in" && signIn.getToken() === token) signIn.setToken(null);
  let body = null;
  try {
    body = await response.json();
  } catch {
    // The body is not from Vik, for example from a proxy: only the status is known.
  }
  throw new ApiError(response.status, body);
}

const fetchJson = async (path, options) => (await request(path, options)).json();

export const get = (path, options) => fetchJson(path, options);

export const post = (path, body = {}) =>
  fetchJson(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const remove = (path) => fetchJson(path, { method: "DELETE" });

/**
 * Returns a function that schedules `run`. Calls within `waitMs` are merged. `run` is never executed concurrently: a
 * call during its execution schedules one more.
 */
export function coalesce(run, waitMs = 150) {
  let timer = 0;
  let isRunning = false;
  let shouldRunAgain = false;
  const execute = async () => {
    timer = 0;
    if (isRunning) {
      shouldRunAgain = true;
      return;
    }
    isRunning = true;
    try {
      await run();
    } finally {
      isRunning = false;
      if (shouldRunAgain) {
        shouldRunAgain = false;
        schedule();
      }
    }
  };
  const schedule = (ms = waitMs) => {
    if (timer) return;
    timer = setTimeout(execute, ms);
  };
  schedule.cancel = () => clearTimeout(timer);
  return schedule;
}
