python3 test_calc.py
