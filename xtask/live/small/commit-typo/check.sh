grep -q receive README.md && ! grep -q recieve README.md && test "$(git log -1 --format=%s)" = 'Fix a typo' && test -z "$(git status --porcelain)"
