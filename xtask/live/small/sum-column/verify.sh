python3 sum.py | grep -x 60
