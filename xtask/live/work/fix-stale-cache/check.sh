set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- tests pyproject.toml
python3 -m unittest -q
python3 - <<'PY'
from catalog import Shop, Storage
storage = Storage([("Tea", "Drinks", 3), ("Milk", "Drinks", 1), ("Bread", "Food", 2)])
shop = Shop(storage)
assert (shop.price("tea"), shop.price("bread"), shop.total("Drinks"), shop.total("Food")) == (3, 2, 4, 2)
shop.set_price(" tEA ", 6)
assert (shop.price("TEA"), shop.total("Drinks")) == (6, 7)
asked = lambda: (shop.price("Bread"), shop.total("Food"), shop.price("tea"), shop.total("Drinks"))
assert asked() == (2, 2, 6, 7)
reads = storage.reads
assert asked() == (2, 2, 6, 7)
assert storage.reads == reads, "the cache is not used"
shop.remove("MILK ")
assert shop.total("Drinks") == 6
shop.add("Juice", "Drinks", 4)
assert (shop.total("Drinks"), shop.price("juice")) == (10, 4)
PY
