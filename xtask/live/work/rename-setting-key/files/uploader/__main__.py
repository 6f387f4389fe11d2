import argparse
import os

from .settings import load


def main():
    parser = argparse.ArgumentParser(prog="uploader")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--retry-count", type=int, help="number of tries of each file")
    parser.add_argument("--timeout", type=int, help="seconds")
    options = parser.parse_args()
    settings = load(os.environ, vars(options))
    for name in options.files:
        print(f"{name}: {settings.retry_count} tries, timeout {settings.timeout}")


if __name__ == "__main__":
    main()
