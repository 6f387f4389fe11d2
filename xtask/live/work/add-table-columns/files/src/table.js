import { cellsOf } from './cells.js';

/** Returns records as a table, with a line for each. */
export function table(records, { header = true } = {}) {
  const columns = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const lines = records.map(() => []);
  const head = [];
  for (const column of columns) {
    const { texts, isNumeric } = cellsOf(records, column);
    const shown = header ? [column, ...texts] : texts;
    const width = Math.max(...shown.map((text) => text.length));
    const pad = (text) => (isNumeric ? text.padStart(width) : text.padEnd(width));
    head.push(pad(column));
    texts.forEach((text, row) => lines[row].push(pad(text)));
  }
  const all = header ? [head, ...lines] : lines;
  return all.map((cells) => `${cells.join('  ').trimEnd()}\n`).join('');
}
