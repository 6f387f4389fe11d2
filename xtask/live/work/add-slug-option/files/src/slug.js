import { plain } from './letters.js';

/** Returns the name of a page for its address: words of letters and digits, joined by `-`. */
export function slug(title, { maxWords = Infinity } = {}) {
  const words = plain(title).match(/[a-z0-9]+/g) ?? [];
  return words.slice(0, maxWords).join('-');
}
