! grep -q old_total shop.py && test "$(python3 shop.py)" = 6 && grep -q 'def total' shop.py
