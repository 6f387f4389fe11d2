grep -n reverse_words words.py && grep -n reverse_words test_words.py && python3 test_words.py
