printf '[server]\nport = 80\ntimeout = 60\n\n[client]\ntimeout = 30\n' | cmp -s - settings.ini
