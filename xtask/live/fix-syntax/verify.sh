python3 greet.py
