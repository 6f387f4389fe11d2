/** Returns the query of an address; lists become repeated names, null and undefined are left out. */
export function write(values) {
  const parts = [];
  for (const name of Object.keys(values)) {
    for (const value of [values[name]].flat()) {
      if (value !== null && value !== undefined) {
        parts.push(`${name}=${escape(String(value))}`);
      }
    }
  }
  return parts.join('&');
}

function escape(text) {
  return encodeURI(text).replaceAll('%20', '+');
}
