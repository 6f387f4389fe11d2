ls tools/helpers.py && ! ls helpers.py && python3 main.py
