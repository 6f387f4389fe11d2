/** Returns the milliseconds before a try: 0, 10, 20, 40 ... at most a second. */
export function delayBefore(attempt) {
  if (attempt <= 1) {
    return 0;
  }
  return Math.min(1000, 10 * 2 ** (attempt - 2));
}

export function wait(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
