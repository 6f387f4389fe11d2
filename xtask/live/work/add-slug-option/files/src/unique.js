import { slug } from './slug.js';

/** Returns the slugs of titles; equal ones get a number. */
export function uniqueSlugs(titles) {
  const counts = new Map();
  return titles.map((title) => {
    const name = slug(title);
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count === 1 ? name : `${name}-${count}`;
  });
}
