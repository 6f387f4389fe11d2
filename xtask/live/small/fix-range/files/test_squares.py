from squares import squares

assert squares(4) == [1, 4, 9, 16], squares(4)
print("all passed")
