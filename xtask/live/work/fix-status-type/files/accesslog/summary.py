"""Sums up records."""

from collections import Counter


def summarize(records):
    """Returns the number of requests, of errors, of bytes, and the most used paths."""
    paths = Counter()
    requests = errors = size = 0
    for record in records:
        requests += 1
        size += record.size
        if record.status >= 500:
            errors += 1
        paths[record.path] += 1
    return {
        "requests": requests,
        "errors": errors,
        "bytes": size,
        "top": [path for path, _ in paths.most_common(3)],
    }
