grep -n 'test(.*columns' test/table.test.js && grep -n -- --columns README.md && node --test && node bin/table.js --columns price,name data.json | grep -x 'price  name'
