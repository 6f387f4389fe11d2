import unittest

from timesheet import hours_by_project, render

ENTRIES = [
    {"project": "b", "minutes": 90},
    {"project": "a", "minutes": 45},
    {"project": " b", "minutes": 30},
]


class TimesheetTest(unittest.TestCase):
    def setUp(self):
        self.hours = hours_by_project(ENTRIES)

    def test_hours(self):
        self.assertEqual(list(self.hours.items()), [("a", 0.75), ("b", 2.0)])

    def test_text(self):
        self.assertEqual(render(self.hours, "text"), "a   0.75\nb   2.00\nsum   2.75\n")

    def test_json(self):
        self.assertEqual(render(self.hours, "json"), '{"a": 0.75, "b": 2.0}\n')

    def test_unknown_format(self):
        with self.assertRaises(ValueError):
            render(self.hours, "xml")


if __name__ == "__main__":
    unittest.main()
