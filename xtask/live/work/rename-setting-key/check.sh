set -e
if grep -rniE 'retry.?count' --include='*.py' --include='*.json' --include='*.md' .; then exit 1; fi
grep -q -- '--max-tries 3' README.md
grep -q 'UPLOADER_MAX_TRIES' README.md
grep -q '`max_tries`' README.md
test "$(grep -c 'def test_' tests/test_uploader.py)" = 4
grep -q UPLOADER_MAX_TRIES tests/test_uploader.py
python3 -m unittest -q
test "$(python3 -m uploader --max-tries 2 a.txt)" = 'a.txt: 2 tries, timeout 30'
test "$(UPLOADER_MAX_TRIES=9 UPLOADER_RETRY_COUNT=8 python3 -m uploader a b | tail -1)" = 'b: 9 tries, timeout 30'
if python3 -m uploader --retry-count 2 a.txt; then exit 1; fi
python3 - <<'PY'
import json
from uploader import Client, Settings, UploadFailed, load
assert json.load(open("uploader/defaults.json")) == {"max_tries": 5, "timeout": 30}
assert load({"UPLOADER_TIMEOUT": "4"}, {"max_tries": 3}) == Settings(max_tries=3, timeout=4)
try:
    Client(Settings(max_tries=4, timeout=1), lambda name, timeout: False).upload("f")
except UploadFailed as error:
    assert "4 times" in str(error) and "--max-tries" in str(error), error
else:
    raise SystemExit("no failure")
PY
