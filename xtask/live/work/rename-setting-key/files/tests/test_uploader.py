import unittest

from uploader import Client, Settings, UploadFailed, load


class SettingsTest(unittest.TestCase):
    def test_order(self):
        self.assertEqual(load({}, {}).retry_count, 5)
        environment = {"UPLOADER_RETRY_COUNT": "7"}
        self.assertEqual(load(environment, {}).retry_count, 7)
        self.assertEqual(load(environment, {"retry_count": 2}).retry_count, 2)

    def test_minimum(self):
        with self.assertRaises(ValueError):
            Settings(retry_count=0, timeout=1)


class ClientTest(unittest.TestCase):
    def test_tries(self):
        results = iter([False, False, True])
        client = Client(Settings(retry_count=3, timeout=1), lambda name, timeout: next(results))
        self.assertEqual(client.upload("a"), 3)

    def test_failure(self):
        client = Client(Settings(retry_count=2, timeout=1), lambda name, timeout: False)
        with self.assertRaises(UploadFailed):
            client.upload("a")


if __name__ == "__main__":
    unittest.main()
