def squares(n):
    """The squares of 1 to n."""
    result = []
    for i in range(n):
        result.append(i * i)
    return result
