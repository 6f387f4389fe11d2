def get_usr(number):
    return "user " + str(number)
