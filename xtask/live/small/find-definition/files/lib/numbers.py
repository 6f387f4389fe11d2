def parse_number(text):
    return int(text)
