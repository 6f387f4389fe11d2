import calc

assert calc.add(1, 2) == 3, "add"
assert calc.sub(3, 2) == 1, "sub"
print("all passed")
