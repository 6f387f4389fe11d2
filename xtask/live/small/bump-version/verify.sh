git diff --numstat -- package.json | grep '^1[[:space:]]1[[:space:]]' && python3 -m json.tool package.json
