import settings


def fits(size):
    return size <= settings.MAX_SIZE
