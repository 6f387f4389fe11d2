set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- test package.json src/releases.js
cat > test/hidden.test.js <<'JS'
import assert from 'node:assert/strict';
import test from 'node:test';
import { compare, newest, releasesSince } from '../src/index.js';

test('hidden', () => {
  const order = ['0.9.12', '0.10.0', '1.0.0-rc.1', '1.0.0', '1.0.2', '1.0.10', '1.9.9', '1.10.0', '2.0.0', '10.0.0'];
  for (let a = 0; a < order.length; a += 1) {
    for (let b = 0; b < order.length; b += 1) {
      assert.equal(Math.sign(compare(order[a], order[b])), Math.sign(a - b), `${order[a]} ${order[b]}`);
    }
  }
  assert.equal(compare('01.2.3', '1.02.3'), 0);
  assert.equal(newest(['2.0.0-rc.1', '1.0.0'], { candidates: true }), '2.0.0-rc.1');
  assert.equal(newest([]), null);
  assert.deepEqual(releasesSince([...order].reverse(), '1.9.9'), ['1.10.0', '2.0.0', '10.0.0']);
});
JS
node --test
