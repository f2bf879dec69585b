"""Configuration: one file, overrides from the environment, and errors that say where to look."""

import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from msgspec import Meta

from penstock.config import SECRET, Config, ConfigError, environment_for, load, show, toml

SECRET_TEXT = "s3cr3t-never-print"


def write(folder: Path, text: str) -> Path:
    file = folder / "penstock.toml"
    file.write_text(text)
    return file


def error_of(folder: Path, text: str = "", **environ: str) -> str:
    file = write(folder, text)
    with pytest.raises(ConfigError) as wrong:
        load(file, environ)
    return str(wrong.value)


def test_everything_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = load(environ={})
    assert loaded.config == Config()
    assert loaded.sources == {}


def test_file_sets_values_and_is_named_as_their_source(tmp_path: Path) -> None:
    file = write(tmp_path, '[ingress]\nport = 9000\nmedia_hosts = ["a", "b"]\n[engine]\n')
    loaded = load(file, {})
    assert loaded.config.ingress.port == 9000
    assert loaded.config.ingress.media_hosts == ("a", "b")
    assert loaded.config.ingress.host == Config().ingress.host
    assert loaded.sources == {"ingress.port": str(file), "ingress.media_hosts": str(file)}


def test_file_may_be_named_by_the_environment_and_a_given_one_wins(tmp_path: Path) -> None:
    named = write(tmp_path, "[ingress]\nport = 9000\n")
    assert load(environ={"PENSTOCK_CONFIG": str(named)}).config.ingress.port == 9000
    given = tmp_path / "other.toml"
    given.write_text("[ingress]\nport = 9001\n")
    assert load(given, {"PENSTOCK_CONFIG": str(named)}).config.ingress.port == 9001


def test_file_is_found_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "[ingress]\nport = 9000\n")
    monkeypatch.chdir(tmp_path)
    loaded = load(environ={})
    assert loaded.config.ingress.port == 9000
    assert loaded.sources["ingress.port"].endswith("penstock.toml")


def test_environment_wins_over_the_file_and_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, '[ingress]\nport = 9000\nhost = "0.0.0.0"\n')
    loaded = load(file, {"PENSTOCK_INGRESS_PORT": "9001", "PATH": "/bin", "HOME": "/"})
    assert loaded.config.ingress.port == 9001
    assert loaded.config.ingress.host == "0.0.0.0"
    assert loaded.sources == {
        "ingress.port": "PENSTOCK_INGRESS_PORT",
        "ingress.host": str(file),
    }


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("PENSTOCK_INGRESS_PORT", "9001", 9001),
        ("PENSTOCK_ENGINE_CONNECT_SECONDS", "1.5", 1.5),
        ("PENSTOCK_ENGINE_CONNECT_SECONDS", "3", 3.0),
        ("PENSTOCK_TELEMETRY_LOG_REQUESTS", "false", False),
        ("PENSTOCK_TELEMETRY_LOG_LEVEL", "debug", "debug"),
        ("PENSTOCK_TELEMETRY_LOG_LEVEL", '"debug"', "debug"),
        ("PENSTOCK_INGRESS_HOST", "0.0.0.0", "0.0.0.0"),
        ("PENSTOCK_INGRESS_HOST", "5", "5"),
        ("PENSTOCK_FLEET_REPLICA_ADDRESS", "10", "10"),
        ("PENSTOCK_FLEET_REPLICA_ADDRESS", "10.0.0.7", "10.0.0.7"),
        ("PENSTOCK_INGRESS_MEDIA_HOSTS", '["a", "b"]', ("a", "b")),
        ("PENSTOCK_ENGINE_API_KEYS", '{"http://x" = "k"}', {"http://x": "k"}),
        ("PENSTOCK_INGRESS_BODY_BYTES_MAX", "1_000_000", 1_000_000),
    ],
)
def test_environment_values_are_text_for_text_and_toml_for_the_rest(
    tmp_path: Path, variable: str, text: str, value: object
) -> None:
    loaded = load(write(tmp_path, ""), {variable: text})
    (name,) = loaded.sources
    room, _, field = name.partition(".")
    assert getattr(getattr(loaded.config, room), field) == value
    assert loaded.sources[name] == variable


def test_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        load(missing, {})
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        load(environ={"PENSTOCK_CONFIG": str(missing)})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ingress\n", "line 1"),
        ("[ingress]\nport = 1\nport = 2\n", "line 3"),
        ("[nowhere]\nport = 1\n", "`nowhere`"),
        ("port = 1\n", "`port`"),
        ("[ingress]\nprot = 1\n", "`prot`"),
        ("ingress = 3\n", "`ingress`"),
        ("[ingress]\nport = 70000\n", "`ingress.port`"),
        ('[ingress]\nport = "9000"\n', "`ingress.port`"),
        ("[ingress]\nport = 9000.5\n", "`ingress.port`"),
        ("[engine]\nconnect_seconds = 0\n", "`engine.connect_seconds`"),
        ('[telemetry]\nlog_level = "loud"\n', "`telemetry.log_level`"),
        ("[ingress]\nmedia_hosts = [1]\n", "`ingress.media_hosts"),
    ],
)
def test_error_in_the_file_names_file_and_setting(tmp_path: Path, text: str, said: str) -> None:
    message = error_of(tmp_path, text)
    assert str(tmp_path / "penstock.toml") in message
    assert said in message


def test_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_bytes(b"[ingress]\nhost = '\xff'\n")
    with pytest.raises(ConfigError, match=r"penstock\.toml"):
        load(file, {})


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PENSTOCK_NOWHERE_PORT", "1", "nowhere"),
        ("PENSTOCK_PORT", "1", "no room `port`"),
        ("PENSTOCK_INGRESS_PROT", "1", "prot"),
        ("PENSTOCK_INGRESS_", "1", "ingress"),
        ("PENSTOCK_INGRESS", "1", "ingress"),
        ("PENSTOCK_INGRESS_PORT", "70000", "65535"),
        ("PENSTOCK_INGRESS_PORT", "many", "int"),
        ("PENSTOCK_INGRESS_PORT", "", "int"),
        ("PENSTOCK_INGRESS_PORT", '"9000"', "int"),
        ("PENSTOCK_TELEMETRY_LOG_LEVEL", "loud", "loud"),
        ("PENSTOCK_INGRESS_MEDIA_HOSTS", "a,b", "array"),
    ],
)
def test_error_in_the_environment_names_the_variable(
    tmp_path: Path, variable: str, text: str, said: str
) -> None:
    message = error_of(tmp_path, "", **{variable: text})
    assert variable in message
    assert said in message


def test_unknown_names_are_answered_with_those_there_are(tmp_path: Path) -> None:
    assert "connect_seconds" in error_of(tmp_path, "[engine]\nconect_seconds = 1\n")
    assert "ingress" in error_of(tmp_path, "[ingres]\n")
    assert "telemetry" in error_of(tmp_path, PENSTOCK_TELEMETRI_X="1")


def test_override_of_a_room_that_the_file_spoils_is_an_error_and_no_crash(tmp_path: Path) -> None:
    assert "`ingress`" in error_of(tmp_path, "ingress = 3\n", PENSTOCK_INGRESS_PORT="1")


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (f'[engine]\napi_keys = {{"http://x" = 1, "y" = "{SECRET_TEXT}"}}\n', {}),
        (f'[engine]\napi_keys = "{SECRET_TEXT}"\n', {}),
        ("", {"PENSTOCK_ENGINE_API_KEYS": f'{{"x" = "{SECRET_TEXT}"'}),
        ("", {"PENSTOCK_ENGINE_API_KEYS": SECRET_TEXT}),
        ("", {"PENSTOCK_TOOLS_MCP_SERVERS": f'[{{headers = "{SECRET_TEXT}"'}),
        ("", {"PENSTOCK_TOOLS_MCP_SERVERS": SECRET_TEXT}),
        (f'[[tools.mcp_servers]]\nlabel = "a"\nurl = "x{SECRET_TEXT}"\n', {}),
        (
            f'[[tools.mcp_servers]]\nlabel = "a"\nurl = "http://a"\n'
            f'headers = {{"host" = "{SECRET_TEXT}"}}\n',
            {},
        ),
        ("", {"PENSTOCK_ENGINE_API_KEYS": f'["{SECRET_TEXT}"]'}),
        ("[store]\ndsn = 5\n", {}),
        (f'[store]\ndsn = ["{SECRET_TEXT}"]\n', {}),
    ],
)
def test_secrets_are_in_no_error(tmp_path: Path, text: str, environ: dict[str, str]) -> None:
    message = error_of(tmp_path, text, **environ)
    assert SECRET_TEXT not in message
    assert any(name in message.lower() for name in ("api_keys", "dsn", "mcp_servers"))


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        f'[store]\ndsn = "postgresql://u:{SECRET_TEXT}@h/d"\n'
        f'[engine]\napi_keys = {{"*" = "{SECRET_TEXT}"}}\n'
        f'[[tools.mcp_servers]]\nlabel = "a"\nurl = "http://a/"\n'
        f'headers = {{"x" = "{SECRET_TEXT}"}}\n',
    )
    shown = show(load(file, {}))
    assert SECRET_TEXT not in repr(shown)
    sources = {each.name: each.source for each in shown}
    assert sources["store.dsn"] == str(file)
    assert sources["ingress.port"] == "default"


def test_every_setting_is_shown_once(tmp_path: Path) -> None:
    names = [each.name for each in show(load(write(tmp_path, ""), {}))]
    expected = [
        f"{room}.{name}"
        for room in Config.__struct_fields__
        for name in getattr(Config(), room).__struct_fields__
    ]
    assert names == expected
    assert set(SECRET) <= set(expected)


def numbers(hint: Any) -> bool:
    """Whether a type is a plain number, or holds one, without bounds on it."""
    metadata = getattr(hint, "__metadata__", ())
    if any(isinstance(each, Meta) for each in metadata):
        return False
    if hint in (int, float):
        return True
    return any(numbers(part) for part in getattr(hint, "__args__", ()))


def test_every_number_has_bounds_and_unknown_names_are_refused_in_every_room() -> None:
    for room in Config.__struct_fields__:
        kind = type(getattr(Config(), room))
        assert kind.__struct_config__.forbid_unknown_fields, room
        assert kind.__struct_config__.frozen, room
        for name, hint in get_type_hints(kind, include_extras=True).items():
            assert not numbers(hint), f"{room}.{name} has no bounds"


def test_settings_laid_over_an_environment_are_read_back_the_same(tmp_path: Path) -> None:
    values: dict[str, object] = {
        "ingress.port": 9001,
        "ingress.host": "::1",
        "ingress.media_hosts": ("a", 'b"c'),
        "engine.api_keys": {"http://x": 'k"\\\n'},
        "telemetry.log_requests": False,
        "engine.connect_seconds": 0.25,
    }
    environ = environment_for(values, write(tmp_path, ""))
    ours = {name: text for name, text in environ.items() if name.startswith("PENSTOCK_")}
    config = load(environ=ours).config
    for key, value in values.items():
        room, _, name = key.partition(".")
        assert getattr(getattr(config, room), name) == value


def test_defaults_survive_toml() -> None:
    plain = msgspec.json.decode(msgspec.json.encode(Config()))
    for room, values in plain.items():
        for name, value in values.items():
            assert tomllib.loads(f"x = {toml(value)}")["x"] == value, f"{room}.{name}"
