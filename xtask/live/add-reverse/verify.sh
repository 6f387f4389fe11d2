python3 test_words.py
