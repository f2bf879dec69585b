"""penstock.example.toml: it loads, and what it says of defaults is so."""

import re
import tomllib
from pathlib import Path

import msgspec

from penstock.config import Config, load

FILE = Path(__file__).parents[3] / "penstock.example.toml"
ROOMS = re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", FILE.read_text(), re.DOTALL | re.MULTILINE)


def test_example_loads() -> None:
    config = load(FILE, {}).config
    assert [wanted.provider for wanted in config.fleet.replicas] == ["process", "attach"]
    assert config.ingress.workers == 4


def test_every_room_with_settings_worth_changing_is_there() -> None:
    assert {room for room, _ in ROOMS} == set(Config.__struct_fields__) - {"routing"}


def test_lines_that_are_commented_out_show_the_default() -> None:
    defaults = msgspec.to_builtins(Config())
    shown = 0
    for room, text in ROOMS:
        for line in re.findall(r"^# (\w+ = .*)$", text, re.MULTILINE):
            [(name, value)] = tomllib.loads(line).items()
            default = defaults[room][name]
            assert value == (list(default) if isinstance(default, tuple) else default), line
            shown += 1
    assert shown > 15
