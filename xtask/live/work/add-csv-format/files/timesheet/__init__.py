"""Hours by project."""

from .entries import hours_by_project, read
from .formats import FORMATS, render

__all__ = ["FORMATS", "hours_by_project", "read", "render"]
