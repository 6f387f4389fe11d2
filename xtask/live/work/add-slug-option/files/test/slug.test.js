import assert from 'node:assert/strict';
import test from 'node:test';

import { slug, uniqueSlugs } from '../src/index.js';

test('plain letters', () => {
  assert.equal(slug('Crème brûlée, 2 Größen'), 'creme-brulee-2-grossen');
  assert.equal(slug('  --  '), '');
});

test('at most some words', () => {
  assert.equal(slug('One two three', { maxWords: 2 }), 'one-two');
});

test('another separator', () => {
  assert.equal(slug('Hello World', { separator: '_' }), 'hello_world');
});

test('equal titles', () => {
  assert.deepEqual(uniqueSlugs(['A b', 'a B!', 'c']), ['a-b', 'a-b-2', 'c']);
});
