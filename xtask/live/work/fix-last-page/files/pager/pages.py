from dataclasses import dataclass


@dataclass
class Page:
    number: int
    items: list
    has_next: bool
    has_previous: bool


class Pager:
    """Splits a list into pages; the first page has the number 1."""

    def __init__(self, items, size):
        if size < 1:
            raise ValueError("a page needs at least one item")
        self.items = list(items)
        self.size = size

    @property
    def count(self):
        """The number of pages."""
        return len(self.items) // self.size

    def page(self, number):
        """Returns a page by its number."""
        if not 1 <= number <= self.count:
            raise IndexError(f"no page {number}")
        start = (number - 1) * self.size
        return Page(
            number=number,
            items=self.items[start : start + self.size],
            has_next=number < self.count,
            has_previous=number > 1,
        )

    def __iter__(self):
        for number in range(1, self.count + 1):
            yield self.page(number)
