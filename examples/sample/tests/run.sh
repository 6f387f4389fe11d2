#!/bin/sh
# Runs all tests; the exit code tells whether they passed.
cd "$(dirname "$0")/.." || exit 1
failed=0

# check NAME EXPECTED ACTUAL
check() {
    if [ "$2" = "$3" ]; then
        echo "ok   $1"
    else
        echo "FAIL $1: expected '$2', got '$3'"
        failed=1
    fi
}

for test in tests/*_test.sh; do
    . "./$test"
done
exit "$failed"
