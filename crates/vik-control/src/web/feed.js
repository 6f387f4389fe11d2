// The feed of facts: server-sent events, read with `fetch`, because `EventSource` cannot send a token.

import { request } from "./api.js";
import { signIn } from "./sign_in.js";
import { readEvents } from "./sse.js";

const FACT_TYPES = new Set(["reset", "state", "pulled", "session", "session_ended", "issue"]);
const MIN_RETRY_MS = 1000;
const MAX_RETRY_MS = 15_000;
/** The daemon sends a keep-alive every 15 seconds. */
const SILENCE_TIMEOUT_MS = 50_000;

/**
 * Subscribes to the feed, and reconnects when the connection is lost. Calls `onFact(type, fact)` for each fact, and
 * `onConnectionChange(isConnected)` when the connection is established or lost. A fact `reset` follows each gap,
 * because facts may have been missed.
 */
export function subscribeToFeed(onFact, onConnectionChange) {
  let currentController = null;
  let lastId = null;
  let retryMs = MIN_RETRY_MS;
  let retryTimer = 0;
  let wasLost = false;
  let sleepTimer = 0;

  const disconnect = () => {
    clearTimeout(retryTimer);
    currentController?.abort();
    currentController = null;
  };
  const onMessage = ({ id, type, data }) => {
    lastId = id ?? lastId;
    if (!FACT_TYPES.has(type)) return;
    let fact = null;
    try {
      fact = JSON.parse(data);
    } catch {
      // An invalid fact still means that something has changed.
    }
    onFact(fact ? type : "reset", fact);
  };
  const connect = async () => {
    disconnect();
    // A browser that is not signed in cannot connect.
    if (!signIn.getToken()) return;
    const controller = new AbortController();
    currentController = controller;
    let silenceTimer = 0;
    const resetSilenceTimer = () => {
      clearTimeout(silenceTimer);
      silenceTimer = setTimeout(() => controller.abort(), SILENCE_TIMEOUT_MS);
    };
    try {
      resetSilenceTimer();
      const headers = { Accept: "text/event-stream", ...(lastId === null ? {} : { "Last-Event-ID": lastId }) };
      const response = await request("events", { headers, signal: controller.signal });
      if (currentController !== controller) return;
      retryMs = MIN_RETRY_MS;
      onConnectionChange(true);
      if (wasLost) onFact("reset", null);
      wasLost = false;
      await readEvents(response.body, onMessage, resetSilenceTimer);
    } catch {
      // The connection is opened again after any error.
    } finally {
      clearTimeout(silenceTimer);
    }
    // The connection was closed on purpose or replaced by another one.
    if (currentController !== controller) return;
    currentController = null;
    wasLost = true;
    onConnectionChange(false);
    if (!signIn.getToken()) return;
    retryTimer = setTimeout(connect, retryMs);
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  };
  connect();
  signIn.subscribe(() => {
    wasLost = true;
    connect();
  });
  addEventListener("online", connect);
  // A browser has six connections for each server: hidden tabs must not use all of them.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(sleepTimer);
    if (document.hidden) {
      sleepTimer = setTimeout(() => {
        disconnect();
        wasLost = true;
      }, 60_000);
    } else if (!currentController) connect();
  });
}
