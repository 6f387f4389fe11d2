/** Returns one line per result. */
export function report(results) {
  return results
    .map((result) => {
      const detail = result.state === 'failed' ? `: ${result.error}` : '';
      return `${result.name} ${result.state} after ${result.attempts}${detail}`;
    })
    .join('\n');
}
