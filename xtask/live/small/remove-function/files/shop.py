def total(prices):
    return sum(prices)


def old_total(prices):
    result = 0
    for price in prices:
        result = result + price
    return result


print(total([1, 2, 3]))
