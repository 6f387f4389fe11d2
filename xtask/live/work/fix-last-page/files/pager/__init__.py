"""Pages of a list."""

from .links import links
from .pages import Page, Pager

__all__ = ["Page", "Pager", "links"]
