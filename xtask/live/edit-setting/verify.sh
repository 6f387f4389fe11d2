grep -n 60 settings.ini && git diff --stat
