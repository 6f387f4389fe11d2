python3 test_ages.py
