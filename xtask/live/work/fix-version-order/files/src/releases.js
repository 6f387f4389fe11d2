import { compare, parse } from './version.js';

/** Returns the newest version; candidates only count if `candidates` is set. */
export function newest(versions, { candidates = false } = {}) {
  const eligible = versions.filter((version) => candidates || parse(version).pre === null);
  return eligible.sort(compare).at(-1) ?? null;
}

/** Returns the versions that are newer than `installed`, the oldest first. */
export function releasesSince(versions, installed) {
  return versions.filter((version) => compare(version, installed) > 0).sort(compare);
}
