python3 shop.py
