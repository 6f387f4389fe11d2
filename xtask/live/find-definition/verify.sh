ls -- "$(cat found.txt)"
