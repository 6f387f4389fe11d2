from .cache import Cache


class Shop:
    """What the pages of the shop ask for."""

    def __init__(self, storage):
        self._storage = storage
        self._prices = Cache()
        self._totals = Cache()

    def price(self, name):
        return self._prices.get(name, lambda: self._storage.read(name)[1])

    def total(self, group):
        """Returns the sum of the prices of a group."""
        return self._totals.get(group, lambda: sum(self._storage.prices_of(group)))

    def add(self, name, group, price):
        self._storage.write(name, group, price)
        self._prices.forget(name)
        self._totals.forget(group)

    def set_price(self, name, price):
        group, _ = self._storage.read(name)
        self._storage.write(name, group, price)
        self._prices.forget(name)

    def remove(self, name):
        self._storage.delete(name)
        self._prices.forget(name)
