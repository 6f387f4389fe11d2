"""Counts the requests of an access log."""

from .parse import Record, parse_line, parse_lines
from .summary import summarize

__all__ = ["Record", "parse_line", "parse_lines", "summarize"]
