test -s cause.txt && ! grep -v '^/[^[:space:]]*$' cause.txt
