// Text of trackers and agents is untrusted: invisible characters, and characters that reorder their surroundings, are
// shown as escapes.

import { HIDDEN } from "./hidden_characters.js";

const HIDDEN_RUN = new RegExp(`(?:${HIDDEN.source})+`, "gu");

const escapeRun = (run) =>
  Array.from(run, (c) => `⟦U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟧`).join("");

/** Returns the text with unsafe characters escaped. */
export function escapeUnsafe(text) {
  const plain = text.includes("\r\n") ? text.replaceAll("\r\n", "\n") : text;
  return HIDDEN.test(plain) ? plain.replace(HIDDEN_RUN, escapeRun) : plain;
}

/** Splits the text into `{ text }` segments and `{ escape }` segments of escaped characters. */
export function splitUnsafe(text) {
  const plain = text.includes("\r\n") ? text.replaceAll("\r\n", "\n") : text;
  if (!HIDDEN.test(plain)) return [{ text: plain }];
  const segments = [];
  let position = 0;
  for (const match of plain.matchAll(HIDDEN_RUN)) {
    if (match.index > position) segments.push({ text: plain.slice(position, match.index) });
    segments.push({ escape: escapeRun(match[0]) });
    position = match.index + match[0].length;
  }
  if (position < plain.length) segments.push({ text: plain.slice(position) });
  return segments;
}

/** Truncates the text to `maxLength` characters. */
export function truncate(text, maxLength) {
  if (text.length <= maxLength) return text;
  // A surrogate pair is not split.
  const end = /[\ud800-\udbff]/.test(text[maxLength - 1]) ? maxLength - 1 : maxLength;
  return `${text.slice(0, end)}…`;
}

/** Returns the host of an HTTP URL, or `null` for other texts, which must not become links. */
export function webHost(text) {
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.host : null;
  } catch {
    return null;
  }
}
