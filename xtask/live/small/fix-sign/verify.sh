git diff --exit-code -- test_calc.py && python3 test_calc.py
