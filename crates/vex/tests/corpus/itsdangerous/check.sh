set -eu
# The tests that the agent does not see, and those that it had to write.
PYTHONPATH=src python3 "$(dirname "$0")/hidden.py"
PYTHONPATH=src python3 -m unittest discover -s tests -q
grep -q "def test" tests/test_max_age.py
