! grep -rnie 'retry.count' --include='*.py' --include='*.json' --include='*.md' . && python3 -m unittest -q && python3 -m uploader --max-tries 2 a.txt | grep -x 'a.txt: 2 tries, timeout 30'
