import assert from 'node:assert/strict';
import test from 'node:test';

import { Queue, delayBefore, report } from '../src/index.js';

test('delays grow', () => {
  assert.deepEqual([1, 2, 3, 4, 20].map(delayBefore), [0, 10, 20, 40, 1000]);
});

test('jobs run in their order', async () => {
  const order = [];
  const queue = new Queue();
  for (const name of ['a', 'b']) {
    queue.add(name, async () => order.push(name));
  }
  await queue.drain();
  assert.deepEqual(order, ['a', 'b']);
});

test('a failed job is tried again', async () => {
  const queue = new Queue();
  queue.add('mail', async (attempt) => {
    if (attempt < 2) {
      throw new Error('no server');
    }
    return 'sent';
  });
  const [result] = await queue.drain();
  assert.deepEqual(result, { name: 'mail', state: 'done', attempts: 2, value: 'sent' });
});

test('reports', () => {
  const failed = { name: 'a', state: 'failed', attempts: 3, error: 'no disk' };
  assert.equal(report([failed]), 'a failed after 3: no disk');
});
