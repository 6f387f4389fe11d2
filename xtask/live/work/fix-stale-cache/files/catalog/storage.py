class Storage:
    """The products on disk: name, group and price."""

    def __init__(self, rows):
        self._rows = {name.lower(): (group, price) for name, group, price in rows}
        self.reads = 0

    def read(self, name):
        """Returns the group and the price of a product."""
        self.reads += 1
        return self._rows[name.strip().lower()]

    def write(self, name, group, price):
        self._rows[name.strip().lower()] = (group, price)

    def delete(self, name):
        del self._rows[name.strip().lower()]

    def prices_of(self, group):
        """Returns the prices of a group."""
        self.reads += 1
        return [price for found, price in self._rows.values() if found == group]
