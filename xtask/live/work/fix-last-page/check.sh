set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- tests pyproject.toml
python3 -m unittest -q
python3 - <<'PY'
from pager import Pager, links
for total in range(40):
    for size in range(1, 12):
        pager = Pager(range(total), size)
        pages = list(pager)
        assert [item for page in pages for item in page.items] == list(range(total)), (total, size)
        assert all(page.items for page in pages), (total, size)
        assert type(pager.count) is int
        for page in pages:
            assert page.has_next == (page is not pages[-1])
assert links(Pager(range(5), 2), 2) == "< 1 [2] 3 >"
for wrong in (0, 4, -1):
    try:
        Pager(range(5), 2).page(wrong)
    except IndexError:
        continue
    raise SystemExit(f"page {wrong} exists")
PY
