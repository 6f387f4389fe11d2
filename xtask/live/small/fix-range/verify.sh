git diff --exit-code -- test_squares.py && python3 test_squares.py
