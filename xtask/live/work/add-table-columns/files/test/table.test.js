import assert from 'node:assert/strict';
import test from 'node:test';

import { parseArgs, table } from '../src/index.js';

const RECORDS = [{ name: 'tea', price: 3.5, stock: 12 }, { name: 'big pot', price: 12 }];

test('all values', () => {
  assert.equal(
    table(RECORDS),
    'name     price  stock\ntea       3.50     12\nbig pot  12.00\n',
  );
});

test('no header', () => {
  assert.equal(table([{ a: 1 }, { a: 10 }], { header: false }), ' 1\n10\n');
});

test('arguments', () => {
  assert.deepEqual(parseArgs(['--no-header', 'a.json']), { file: 'a.json', options: { header: false } });
  assert.throws(() => parseArgs(['--wrong', 'a.json']), RangeError);
  assert.throws(() => parseArgs([]), RangeError);
});
