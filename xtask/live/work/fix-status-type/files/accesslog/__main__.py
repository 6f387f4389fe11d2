import sys

from . import parse_lines, summarize


def main():
    with open(sys.argv[1], encoding="utf-8") as log:
        summary = summarize(parse_lines(log))
    for name, value in summary.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
