import json


def as_text(hours):
    width = max((len(project) for project in hours), default=0)
    lines = [f"{project:<{width}} {value:6.2f}" for project, value in hours.items()]
    lines.append(f"{'sum':<{width}} {sum(hours.values()):6.2f}")
    return "\n".join(lines) + "\n"


def as_json(hours):
    return json.dumps({project: round(value, 2) for project, value in hours.items()}) + "\n"


FORMATS = {"text": as_text, "json": as_json}


def render(hours, name):
    """Returns the report in a format."""
    if name not in FORMATS:
        raise ValueError(f"unknown format {name}: expected one of {', '.join(sorted(FORMATS))}")
    return FORMATS[name](hours)
