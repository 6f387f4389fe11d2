from users import get_usr

print(get_usr(7))
