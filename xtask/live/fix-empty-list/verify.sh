python3 test_mean.py
