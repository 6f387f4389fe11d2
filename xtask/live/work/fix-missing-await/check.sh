set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- test package.json src/retry.js src/report.js
cat > test/hidden.test.js <<'JS'
import assert from 'node:assert/strict';
import test from 'node:test';
import { Queue } from '../src/index.js';

test('hidden', async () => {
  const queue = new Queue({ attempts: 2 });
  let running = 0;
  queue.add('never', async () => { throw new Error('broken'); });
  queue.add('throws', () => { throw new Error('at once'); });
  for (const name of ['slow', 'next']) {
    queue.add(name, async () => {
      running += 1;
      assert.equal(running, 1, 'two jobs at once');
      await new Promise((resolve) => setTimeout(resolve, 5));
      running -= 1;
      return name;
    });
  }
  queue.add('plain', () => 7);
  assert.deepEqual(await queue.drain(), [
    { name: 'never', state: 'failed', attempts: 2, error: 'broken' },
    { name: 'throws', state: 'failed', attempts: 2, error: 'at once' },
    { name: 'slow', state: 'done', attempts: 1, value: 'slow' },
    { name: 'next', state: 'done', attempts: 1, value: 'next' },
    { name: 'plain', state: 'done', attempts: 1, value: 7 },
  ]);
});
JS
node --test
