import unittest

from accesslog import parse_line, parse_lines, summarize


class ParseTest(unittest.TestCase):
    def test_other_lines(self):
        self.assertIsNone(parse_line("restarted"))

    def test_path_without_query(self):
        line = 'a - - [x] "GET /api?page=2 HTTP/1.1" 200 -'
        self.assertEqual(parse_line(line).path, "/api")
        self.assertEqual(parse_line(line).size, 0)


class SummaryTest(unittest.TestCase):
    def test_sample(self):
        with open("sample.log", encoding="utf-8") as log:
            summary = summarize(parse_lines(log))
        self.assertEqual(summary["requests"], 5)
        self.assertEqual(summary["errors"], 2)
        self.assertEqual(summary["bytes"], 2935)
        self.assertEqual(summary["top"][0], "/api/items")


if __name__ == "__main__":
    unittest.main()
