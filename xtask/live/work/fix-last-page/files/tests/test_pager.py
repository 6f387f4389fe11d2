import unittest

from pager import Pager, links


class PagerTest(unittest.TestCase):
    def test_full_pages(self):
        pager = Pager(range(20), 10)
        self.assertEqual(pager.count, 2)
        self.assertEqual(pager.page(2).items, list(range(10, 20)))

    def test_last_page(self):
        pager = Pager(range(25), 10)
        self.assertEqual(pager.count, 3)
        last = pager.page(3)
        self.assertEqual(last.items, [20, 21, 22, 23, 24])
        self.assertFalse(last.has_next)

    def test_empty(self):
        self.assertEqual(Pager([], 10).count, 0)
        with self.assertRaises(IndexError):
            Pager([], 10).page(1)

    def test_links(self):
        self.assertEqual(links(Pager(range(4), 2), 1), "[1] 2 >")


if __name__ == "__main__":
    unittest.main()
