! grep -n old_total shop.py && python3 shop.py
