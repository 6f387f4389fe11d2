test ! -e helpers.py && test -e tools/helpers.py && test "$(python3 main.py)" = ready
