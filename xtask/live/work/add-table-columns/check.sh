set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- data.json package.json
for name in 'all values' 'no header' 'arguments'; do grep -q "test('$name'" test/table.test.js; done
grep -q 'test(.*columns' test/table.test.js
grep -q -- --columns README.md
node --test
test "$(node bin/table.js --columns price,name data.json)" = 'price  name
 3.50  tea
12.00  big pot'
test "$(node bin/table.js --no-header --columns stock data.json | head -1)" = 12
test "$(node bin/table.js data.json | head -1)" = 'name     price  stock'
status=0; node bin/table.js --columns name,colour data.json > out.txt 2> err.txt || status=$?
test "$status" = 2
test ! -s out.txt
grep -q colour err.txt
status=0; node bin/table.js data.json --columns || status=$?
test "$status" = 2
cat > test/hidden.test.js <<'JS'
import assert from 'node:assert/strict';
import test from 'node:test';
import { table } from '../src/index.js';

test('hidden', () => {
  const records = [{ a: 1, b: 'x' }, { c: null }];
  assert.equal(table(records, { columns: ['c', 'a'] }), 'c  a\n   1\n\n');
  assert.equal(table(records, { columns: ['b'], header: false }), 'x\n\n');
  assert.throws(() => table(records, { columns: ['a', 'nope'] }), (error) => error instanceof RangeError && error.message.includes('nope'));
  assert.throws(() => table(records, { columns: ['toString'] }), RangeError);
});
JS
node --test
