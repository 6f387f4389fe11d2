! grep -rn get_usr --include=*.py . && python3 main.py
