import assert from 'node:assert/strict';
import test from 'node:test';

import { compare, newest, parse, releasesSince } from '../src/index.js';

test('candidates are older than their release', () => {
  assert.equal(compare('1.0.0-rc.1', '1.0.0'), -1);
  assert.equal(compare('1.0.0', 'v1.0.0'), 0);
  assert.equal(parse('1.0.0-rc.1').pre, 'rc.1');
});

test('numbers are compared as numbers', () => {
  assert.equal(compare('1.10.0', '1.9.0'), 1);
  assert.equal(newest(['1.9.0', '1.10.0', '1.2.0', '2.0.0-rc.1']), '1.10.0');
});

test('releases since a version', () => {
  assert.deepEqual(releasesSince(['1.3.0', '1.1.0', '1.2.0'], '1.1.0'), ['1.2.0', '1.3.0']);
});

test('other texts are no versions', () => {
  assert.throws(() => parse('1.2'), TypeError);
});
