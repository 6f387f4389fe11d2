import json


def read(path):
    """Returns the entries of a file: a list of objects with project and minutes."""
    with open(path, encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        if entry["minutes"] < 0:
            raise ValueError(f"negative time for {entry['project']}")
    return entries


def hours_by_project(entries):
    """Returns the hours of each project, sorted by name."""
    minutes = {}
    for entry in entries:
        project = entry["project"].strip()
        minutes[project] = minutes.get(project, 0) + entry["minutes"]
    return {project: minutes[project] / 60 for project in sorted(minutes)}
