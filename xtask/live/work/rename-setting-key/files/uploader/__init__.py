"""Sends files to a server."""

from .client import Client, UploadFailed
from .settings import Settings, load

__all__ = ["Client", "Settings", "UploadFailed", "load"]
