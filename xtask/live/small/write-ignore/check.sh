git init -q . && mkdir -p build && touch build/x a.pyc keep.py && git check-ignore -q build/x && git check-ignore -q a.pyc && ! git check-ignore -q keep.py
