def parse_name(text):
    return text.split(" ")
