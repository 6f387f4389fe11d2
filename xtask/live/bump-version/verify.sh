grep '1.1.0' package.json && python3 -m json.tool package.json
