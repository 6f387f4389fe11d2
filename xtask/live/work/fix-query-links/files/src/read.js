/** Returns the values of a query; a repeated name gives a list. */
export function read(query) {
  const values = {};
  for (const part of query.replace(/^\?/, '').split('&')) {
    if (part === '') {
      continue;
    }
    const [name, value = ''] = part.split('=');
    add(values, unescape(name), unescape(value));
  }
  return values;
}

function add(values, name, value) {
  if (Object.hasOwn(values, name)) {
    values[name] = [values[name], value].flat();
  } else {
    values[name] = value;
  }
}

function unescape(text) {
  return decodeURIComponent(text);
}
