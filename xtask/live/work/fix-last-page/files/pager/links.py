def links(pager, current):
    """Returns the line of links below a page, the current one in brackets."""
    parts = []
    if pager.page(current).has_previous:
        parts.append("<")
    for page in pager:
        parts.append(f"[{page.number}]" if page.number == current else str(page.number))
    if pager.page(current).has_next:
        parts.append(">")
    return " ".join(parts)
