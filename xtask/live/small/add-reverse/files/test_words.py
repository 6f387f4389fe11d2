from words import count

assert count("one two three") == 3
print("all passed")
