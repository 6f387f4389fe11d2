set -eu
# The tests of the package, and that the old name is gone.
python3 -m unittest -q colorama.tests.ansitowin32_test colorama.tests.ansi_test colorama.tests.isatty_test colorama.tests.initialise_test
python3 -c 'from colorama.ansitowin32 import ConvertingStream; from colorama.tests.ansitowin32_test import ConvertingStreamTest'
! grep -rq StreamWrapper colorama
