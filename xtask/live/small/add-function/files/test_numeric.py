from numeric import double

assert double(3) == 6
print("all passed")
