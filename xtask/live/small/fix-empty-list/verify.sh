git diff --exit-code -- test_mean.py && python3 test_mean.py
