grep -n 60 settings.ini && git diff --numstat | grep '^1[[:space:]]1[[:space:]]'
