const SPECIAL = new Map([
  ['ß', 'ss'],
  ['æ', 'ae'],
  ['ø', 'o'],
]);

/** Returns a text in lower case, in plain letters where there are some. */
export function plain(text) {
  const lower = text.toLowerCase();
  const letters = [...lower].map((letter) => SPECIAL.get(letter) ?? letter);
  return letters.join('').normalize('NFD').replace(/\p{Mark}/gu, '');
}
