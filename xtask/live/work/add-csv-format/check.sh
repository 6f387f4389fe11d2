set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- sample.json timesheet/entries.py pyproject.toml
for name in test_hours test_text test_json test_unknown_format; do grep -q "def $name" tests/test_timesheet.py; done
grep -q 'def test_.*csv' tests/test_timesheet.py
grep -qi csv README.md
python3 -m unittest -q
python3 -m timesheet --format csv sample.json > /tmp/.$$.csv
printf 'project,hours\n"Garden, front",3.25\nwebsite,4.50\n' | cmp - /tmp/.$$.csv
rm /tmp/.$$.csv
test "$(python3 -m timesheet sample.json | tail -1)" = 'sum             7.75'
python3 - <<'PY'
from timesheet import FORMATS, render
assert set(FORMATS) == {"text", "json", "csv"}
assert render({}, "csv") == "project,hours\n"
assert render({'say "hi"': 1.0, "ü": 1 / 3}, "csv") == 'project,hours\n"say ""hi""",1.00\nü,0.33\n'
assert render({"a": 0.75}, "json") == '{"a": 0.75}\n'
PY
