python3 -c "import json; assert json.load(open('config.json')) == {'name': 'demo', 'port': 8080, 'debug': False}"
