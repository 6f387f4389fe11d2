"""Products and their prices."""

from .cache import Cache
from .shop import Shop
from .storage import Storage

__all__ = ["Cache", "Shop", "Storage"]
