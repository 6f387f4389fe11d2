set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- tests sample.log pyproject.toml
python3 -m unittest -q
test "$(python3 -m accesslog sample.log | sed -n 2p)" = 'errors: 2'
python3 - <<'PY'
from accesslog import parse_line, summarize
record = parse_line('h - - [t] "PUT /a HTTP/1.1" 502 5')
assert record.status == 502 and type(record.status) is int, record
assert (record.host, record.method, record.path, record.size) == ("h", "PUT", "/a", 5)
assert summarize([])["errors"] == 0
assert summarize([record, parse_line('h - - [t] "GET /b HTTP/1.1" 499 -')])["errors"] == 1
PY
