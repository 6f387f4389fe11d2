"""Reads the lines of an access log."""

import re
from dataclasses import dataclass

LINE = re.compile(
    r'(?P<host>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] '
    r'"(?P<method>[A-Z]+) (?P<path>\S+)[^"]*" (?P<status>\d{3}) (?P<size>\d+|-)'
)


@dataclass
class Record:
    host: str
    method: str
    path: str
    status: int
    size: int


def parse_line(line):
    """Returns the record of a line, or None if it is no request."""
    match = LINE.match(line)
    if match is None:
        return None
    size = match["size"]
    return Record(
        host=match["host"],
        method=match["method"],
        path=match["path"].split("?")[0],
        status=match["status"],
        size=0 if size == "-" else int(size),
    )


def parse_lines(lines):
    """Yields the records of the lines that are requests."""
    for line in lines:
        record = parse_line(line)
        if record is not None:
            yield record
