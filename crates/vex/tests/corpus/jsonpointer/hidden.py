import doctest
import jsonpointer
from jsonpointer import JsonPointer, resolve_pointer

assert resolve_pointer({"~1": 1, "/": 2}, "/~01") == 1
assert resolve_pointer({"~1": 1, "/": 2}, "/~1") == 2
for key in ["~", "/", "~0", "~1", "~01", "//~~", ""]:
    assert JsonPointer.from_parts([key]).resolve({key: 7}) == 7, key
assert doctest.testmod(jsonpointer).failed == 0
