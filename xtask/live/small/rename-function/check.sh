test "$(python3 main.py)" = 'user 7' && ! grep -rn get_usr --include=*.py . && grep -q 'def get_user' users.py
