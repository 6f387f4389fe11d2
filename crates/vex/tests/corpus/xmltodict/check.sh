set -eu
# The tests that the agent does not see.
PYTHONPATH=. python3 "$(dirname "$0")/hidden.py"
