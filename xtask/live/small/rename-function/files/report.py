import users


def report():
    return [users.get_usr(n) for n in range(3)]
