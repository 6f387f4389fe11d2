test "$(tr -d '[:space:]' < cause.txt)" = /etc/shop/settings.ini
