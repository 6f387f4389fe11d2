import argparse
import sys

from . import FORMATS, hours_by_project, read, render


def main():
    parser = argparse.ArgumentParser(prog="timesheet")
    parser.add_argument("file")
    parser.add_argument("--format", default="text", choices=sorted(FORMATS))
    options = parser.parse_args()
    sys.stdout.write(render(hours_by_project(read(options.file)), options.format))


if __name__ == "__main__":
    main()
