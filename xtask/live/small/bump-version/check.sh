python3 -c "import json; assert json.load(open('package.json')) == {'name': 'demo', 'version': '1.1.0', 'dependencies': {'other': '1.0.0'}}"
