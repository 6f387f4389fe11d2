MAX_SIZE = 100
NAME = "store"
