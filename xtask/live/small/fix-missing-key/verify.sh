git diff --exit-code -- test_ages.py && python3 test_ages.py
