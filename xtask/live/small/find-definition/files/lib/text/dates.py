def parse_date(text):
    year, month, day = text.split("-")
    return int(year), int(month), int(day)
