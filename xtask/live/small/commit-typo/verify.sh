! grep -n recieve README.md && ! git status --porcelain | grep .
