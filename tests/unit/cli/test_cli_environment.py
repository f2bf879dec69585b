"""Settings handed to child processes through the environment arrive as they were."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import FILE_VARIABLE, cpu_engine_folder, environment_for, export, load
from penstock.fleet.settings import WantedReplicas

# The environment of a process cannot hold a zero byte, nor half of a pair of surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@given(
    dsn=TEXT,
    models=st.lists(TEXT, max_size=3),
    keys=st.dictionaries(TEXT, TEXT, max_size=3),
    seconds=st.floats(min_value=0.2, max_value=604800),
    is_logged=st.booleans(),
)
def test_settings_survive_the_way_through_the_environment(
    dsn: str, models: list[str], keys: dict[str, str], seconds: float, is_logged: bool
) -> None:
    replicas = tuple(
        WantedReplicas(model=model, provider="attach", url="http://h:1") for model in models
    )
    given_values = {
        "store.dsn": dsn,
        "fleet.replicas": replicas,
        "fleet.orphan_seconds": seconds,
        "engine.api_keys": keys,
        "telemetry.log_requests": is_logged,
        "ingress.port": 9000,
    }
    environment = {
        name: value
        for name, value in environment_for(given_values).items()
        if name.startswith("PENSTOCK_") and name != FILE_VARIABLE
    }
    config = load(None, environment).config
    assert config.store.dsn == dsn
    assert config.fleet.replicas == replicas
    assert config.fleet.orphan_seconds == seconds
    assert config.engine.api_keys == keys
    assert config.telemetry.log_requests is is_logged
    assert config.ingress.port == 9000


def test_named_file_is_handed_on_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text("[ingress]\nport = 9001\n")
    monkeypatch.setenv(FILE_VARIABLE, "")
    export({}, Path("mine.toml"))
    assert load().sources["ingress.port"] == str(file)


def test_place_of_the_cache_is_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    assert load(None, {"PENSTOCK_CACHE": str(tmp_path)}).sources == {}
    assert cpu_engine_folder() == tmp_path / "cpu-engine"
    monkeypatch.delenv("PENSTOCK_CACHE")
    monkeypatch.setenv("HOME", "/home/me")
    assert cpu_engine_folder() == Path("/home/me/.cache/penstock/cpu-engine")
