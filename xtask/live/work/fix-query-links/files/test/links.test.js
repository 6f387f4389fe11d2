import assert from 'node:assert/strict';
import test from 'node:test';

import { read, searchLink, searchOf, write } from '../src/index.js';

test('plain values', () => {
  assert.equal(write({ q: 'tea', page: 2, tag: ['a', 'b'], none: null }), 'q=tea&page=2&tag=a&tag=b');
  assert.deepEqual(read('?q=tea&tag=a&tag=b&flag'), { q: 'tea', tag: ['a', 'b'], flag: '' });
});

test('special characters survive', () => {
  assert.deepEqual(read(write({ q: 'salt & pepper' })), { q: 'salt & pepper' });
  assert.deepEqual(read(write({ q: '1+1=2' })), { q: '1+1=2' });
});

test('saved searches', () => {
  assert.deepEqual(searchOf('/search?q=green+tea&tag=hot'), { text: 'green tea', filters: { tag: 'hot' } });
  assert.deepEqual(searchOf(searchLink('green tea')).text, 'green tea');
  assert.deepEqual(searchOf('/search'), { text: '', filters: {} });
});
