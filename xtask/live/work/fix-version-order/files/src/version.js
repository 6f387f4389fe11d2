const PATTERN = /^v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.]+))?$/;

/** Returns the parts of a version such as `v1.2.3-rc.1`. */
export function parse(text) {
  const match = PATTERN.exec(text.trim());
  if (match === null) {
    throw new TypeError(`no version: ${text}`);
  }
  const [, major, minor, patch, pre] = match;
  return { numbers: [major, minor, patch], pre: pre ?? null };
}

/** Returns a negative number if `a` is older than `b`, 0 if they are equal, else a positive one. */
export function compare(a, b) {
  const left = parse(a);
  const right = parse(b);
  for (let part = 0; part < 3; part += 1) {
    if (left.numbers[part] !== right.numbers[part]) {
      return left.numbers[part] < right.numbers[part] ? -1 : 1;
    }
  }
  if (left.pre === right.pre) {
    return 0;
  }
  // A release is newer than its candidates.
  if (left.pre === null || right.pre === null) {
    return left.pre === null ? 1 : -1;
  }
  return left.pre < right.pre ? -1 : 1;
}
