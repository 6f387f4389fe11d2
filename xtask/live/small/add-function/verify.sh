grep -n is_even numeric.py && grep -n is_even test_numeric.py && python3 test_numeric.py
