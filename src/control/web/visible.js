// Text of trackers and agents is hostile: characters that cannot be seen, or that reorder what is around them,
// are shown as escapes.

const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/u;
const UNSAFE_RUN = new RegExp(`(?:${UNSAFE.source})+`, "gu");

const escaped = (run) => Array.from(run, (c) => `\\u{${c.codePointAt(0).toString(16)}}`).join("");

/** The text with such characters escaped. */
export function visible(text) {
  const plain = text.includes("\r\n") ? text.replaceAll("\r\n", "\n") : text;
  return UNSAFE.test(plain) ? plain.replace(UNSAFE_RUN, escaped) : plain;
}

/** The text in parts: `{ text }` as it is, `{ escape }` what was escaped. */
export function parts(text) {
  const plain = text.includes("\r\n") ? text.replaceAll("\r\n", "\n") : text;
  if (!UNSAFE.test(plain)) return [{ text: plain }];
  const found = [];
  let at = 0;
  for (const match of plain.matchAll(UNSAFE_RUN)) {
    if (match.index > at) found.push({ text: plain.slice(at, match.index) });
    found.push({ escape: escaped(match[0]) });
    at = match.index + match[0].length;
  }
  if (at < plain.length) found.push({ text: plain.slice(at) });
  return found;
}

/** At most so many characters. */
export function cut(text, most) {
  if (text.length <= most) return text;
  // Not in the middle of a surrogate pair.
  const end = /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most;
  return `${text.slice(0, end)}…`;
}

/** The host of an address of the web; `null` for all else: such a text is no link. */
export function webHost(text) {
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.host : null;
  } catch {
    return null;
  }
}
