test "$(sed 's|^\./||' found.txt | tr -d '[:space:]')" = lib/text/dates.py
