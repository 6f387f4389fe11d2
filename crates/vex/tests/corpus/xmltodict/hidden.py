from xmltodict import parse, unparse

def body(value):
    return unparse(value, full_document=False)

assert body({"a": True}) == "<a>true</a>"
assert body({"a": {"@b": False, "#text": True}}) == '<a b="false">true</a>'
assert body({"a": {"b": [True, 1, 0, 1.5, None, "True"]}}) == "<a><b>true</b><b>1</b><b>0</b><b>1.5</b><b></b><b>True</b></a>"
assert parse("<a b='x'>y</a>") == {"a": {"@b": "x", "#text": "y"}}
