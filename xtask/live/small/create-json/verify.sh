python3 -m json.tool config.json
