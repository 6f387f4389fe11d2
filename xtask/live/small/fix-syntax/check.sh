test "$(python3 greet.py)" = 'Hello, Ada'
