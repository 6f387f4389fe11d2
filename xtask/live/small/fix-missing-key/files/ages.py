AGES = {"ada": 36, "alan": 41}


def age_of(name):
    return AGES[name]
