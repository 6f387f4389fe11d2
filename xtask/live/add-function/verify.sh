python3 test_numeric.py
