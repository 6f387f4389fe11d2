python3 greet.py | grep -x 'Hello, Ada'
