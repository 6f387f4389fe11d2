/** Returns the texts of a column, and whether they are numbers. */
export function cellsOf(records, column) {
  const values = records.map((record) => record[column]);
  const numbers = values.filter((value) => typeof value === 'number');
  const isNumeric = numbers.length > 0 && values.every((value) => value === undefined || typeof value === 'number');
  const decimals = numbers.every(Number.isInteger) ? 0 : 2;
  const texts = values.map((value) => {
    if (value === undefined || value === null) {
      return '';
    }
    return isNumeric ? value.toFixed(decimals) : String(value);
  });
  return { texts, isNumeric };
}
