set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- test package.json src/letters.js
cat > test/hidden.test.js <<'JS'
import assert from 'node:assert/strict';
import test from 'node:test';
import { slug, uniqueSlugs } from '../src/index.js';

test('hidden', () => {
  assert.equal(slug('a-b_c d', { separator: '.' }), 'a.b.c.d');
  assert.equal(slug('One two three', { maxWords: 2, separator: '_' }), 'one_two');
  assert.equal(slug('One two', { separator: '' }), 'onetwo');
  assert.equal(slug('One two'), 'one-two');
  assert.equal(slug('One two', {}), 'one-two');
  assert.equal(slug('!', { separator: '_' }), '');
  assert.deepEqual(uniqueSlugs(['A b', 'a b']), ['a-b', 'a-b-2']);
});
JS
node --test
