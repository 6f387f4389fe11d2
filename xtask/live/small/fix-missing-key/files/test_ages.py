from ages import age_of

assert age_of("alan") == 41
assert age_of("grace") == 0
print("all passed")
