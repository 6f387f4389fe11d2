grep -n 'def test_.*csv' tests/test_timesheet.py && grep -ni csv README.md && python3 -m unittest -q && python3 -m timesheet --format csv sample.json
