check "a list" "2 items, 6.70 in all" "$(printf 'coffee 2.50\ncake 4.20\n' | sh bin/tally)"
check "an empty list" "0 items, 0.00 in all" "$(sh bin/tally /dev/null)"
check "empty lines do not count" "1 items, 2.50 in all" "$(printf '\ncoffee 2.50\n\n' | sh bin/tally)"
