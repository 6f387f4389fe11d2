import unittest

from catalog import Shop, Storage


class CatalogTest(unittest.TestCase):
    def setUp(self):
        self.storage = Storage([("Tea", "drinks", 3), ("Coffee", "drinks", 4), ("Bread", "food", 2)])
        self.shop = Shop(self.storage)

    def test_reads_once(self):
        for name in ("tea", "Tea", " TEA "):
            self.assertEqual(self.shop.price(name), 3)
        self.assertEqual(self.shop.total("drinks"), 7)
        self.assertEqual(self.shop.total("drinks"), 7)
        self.assertEqual(self.storage.reads, 2)

    def test_price_in_capitals(self):
        self.assertEqual(self.shop.price("tea"), 3)
        self.shop.set_price("TEA", 5)
        self.assertEqual(self.shop.price("tea"), 5)

    def test_total_after_change(self):
        self.assertEqual(self.shop.total("drinks"), 7)
        self.shop.set_price("tea", 5)
        self.assertEqual(self.shop.total("drinks"), 9)

    def test_total_after_removal(self):
        self.assertEqual(self.shop.total("drinks"), 7)
        self.shop.remove("coffee")
        self.assertEqual(self.shop.total("drinks"), 3)
        with self.assertRaises(KeyError):
            self.shop.price("coffee")


if __name__ == "__main__":
    unittest.main()
