def normalize(key):
    """Product names do not depend on case or on spaces around them."""
    return key.strip().lower()


class Cache:
    """Remembers computed values by key."""

    def __init__(self):
        self._values = {}

    def get(self, key, compute):
        """Returns the value of a key, and computes it if it is not known."""
        key = normalize(key)
        if key not in self._values:
            self._values[key] = compute()
        return self._values[key]

    def forget(self, key):
        """Drops the value of a key."""
        self._values.pop(key, None)

    def __len__(self):
        return len(self._values)
