python3 test_squares.py
