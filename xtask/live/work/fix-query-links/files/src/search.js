import { read } from './read.js';
import { write } from './write.js';

/** Returns the link of a search. */
export function searchLink(text, filters = {}) {
  return `/search?${write({ q: text, ...filters })}`;
}

/** Returns the text and the filters of a link. */
export function searchOf(link) {
  const start = link.indexOf('?');
  const { q = '', ...filters } = start < 0 ? {} : read(link.slice(start));
  return { text: q, filters };
}
