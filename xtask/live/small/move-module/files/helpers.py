def state():
    return "ready"
