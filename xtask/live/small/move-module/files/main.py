from helpers import state

print(state())
