import json
from dataclasses import dataclass
from pathlib import Path

DEFAULTS = Path(__file__).parent / "defaults.json"
PREFIX = "UPLOADER_"


@dataclass
class Settings:
    retry_count: int
    timeout: int

    def __post_init__(self):
        if self.retry_count < 1:
            raise ValueError("retry_count must be at least 1")


def load(environment, options):
    """Returns the settings: the defaults, then variables, then options."""
    values = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    for name in values:
        variable = environment.get(PREFIX + name.upper())
        if variable is not None:
            values[name] = int(variable)
        if options.get(name) is not None:
            values[name] = options[name]
    return Settings(**values)
