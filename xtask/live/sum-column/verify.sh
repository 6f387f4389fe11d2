test "$(python3 sum.py)" = 60
