"""What `penstock up` runs: options before configuration, configuration before what is installed."""

from pathlib import Path

import pytest

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller
from penstock.cli.up.order import Order, settings_for
from penstock.cli.up.state import UpState
from penstock.cli.up.wanted import ModelChooser, WantedModels
from penstock.config import Loaded, load

ENTRY = """
id = "@acme/{name}"
family = "openai"
context_tokens = 8192
[recipe]
command = ["{program}", "--port", "{{port}}"]
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the engine for CPUs would be; it is not installed."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    return tmp_path


def loaded(**variables: str) -> Loaded:
    return load(None, {f"PENSTOCK_{name.upper()}": value for name, value in variables.items()})


def choose(folder: Path, *models: str, configuration: Loaded | None = None) -> WantedModels:
    configuration = configuration or loaded()
    entries = folder / "models"
    entries.mkdir(exist_ok=True)
    (entries / "here.toml").write_text(ENTRY.format(name="here", program="sh"))
    (entries / "absent.toml").write_text(ENTRY.format(name="absent", program="no-such-program"))
    return ModelChooser(configuration.config, entries, HttpCaller()).choose(models, ())


def test_without_an_engine_it_says_how_to_get_one(cache: Path) -> None:
    with pytest.raises(
        CommandFailed, match=r"--imitate.*--attach.*deploy/cpu-engine/setup"
    ) as failed:
        choose(cache)
    assert failed.value.code is ExitCode.USAGE


def test_imitated_engines_need_nothing_and_have_prices(cache: Path) -> None:
    folder = cache / "models"
    folder.mkdir()
    chooser = ModelChooser(loaded().config, folder, HttpCaller())
    wanted = chooser.choose((), (), is_imitated=True)
    (model,) = wanted.models
    assert [(each.model, each.count) for each in wanted.replicas] == [(model.id, 2)]
    assert model.prices[0].input_nanousd_per_mtok > 0
    assert "imitated" in wanted.notes[0]


def test_operators_catalogue_gets_no_imitated_model(cache: Path) -> None:
    configuration = loaded(catalogue_folder=str(cache)).config
    with pytest.raises(CommandFailed, match=r"catalogue\.folder"):
        ModelChooser(configuration, cache / "models", HttpCaller()).choose((), (), is_imitated=True)
    assert list(cache.iterdir()) == []


def test_installed_cpu_engine_serves_smollm2(cache: Path) -> None:
    home = cache / "cpu-engine"
    program = home / "venv" / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (home / "venv" / ".ready").touch()
    wanted = choose(cache)
    assert [model.id for model in wanted.models] == ["@local/huggingfacetb/smollm2-135m-instruct"]
    assert wanted.engine_home == str(home)


def test_model_for_cpus_without_the_engine_is_refused(cache: Path) -> None:
    with pytest.raises(CommandFailed, match="needs the engine for CPUs"):
        choose(cache, "tiny-vision")


def test_options_go_before_the_configuration(cache: Path) -> None:
    configured = loaded(fleet_replicas='[{model = "@acme/absent"}]')
    assert choose(cache, "@acme/here", configuration=configured).replicas[0].model == "@acme/here"
    with pytest.raises(CommandFailed, match=r"no-such-program, which is not there"):
        choose(cache, configuration=configured)


def test_model_wanted_twice_is_one_model(cache: Path) -> None:
    wanted = choose(cache, "@acme/here", "@acme/here")
    assert len(wanted.replicas) == 2
    assert [model.id for model in wanted.models] == ["@acme/here"]


def test_unknown_model_is_refused(cache: Path) -> None:
    with pytest.raises(CommandFailed, match="nothing"):
        choose(cache, "nothing")


def test_children_get_options_and_habits_but_no_habit_over_the_configuration(cache: Path) -> None:
    configured = loaded(fleet_orphan_seconds="600", ingress_workers="3")
    wanted = choose(cache, "@acme/here", configuration=configured)
    order = Order(port=9000, metrics_port=0)
    settings = settings_for(order, configured, wanted, UpState(cache / "state"), "a dsn")
    assert settings["store.dsn"] == "a dsn"
    assert settings["ingress.port"] == 9000
    assert settings["ingress.metrics_port"] == 0
    assert settings["control.console_gateway_url"] == "http://127.0.0.1:9000"
    assert settings["catalogue.default_model"] == "@acme/here"
    assert "ingress.workers" not in settings
    assert "fleet.orphan_seconds" not in settings
    assert settings["fleet.stop_grace_seconds"] == 10.0


def test_port_0_is_any_free_one(cache: Path) -> None:
    wanted = choose(cache, "@acme/here")
    settings = settings_for(Order(port=0), loaded(), wanted, UpState(cache), "")
    assert isinstance(settings["ingress.port"], int)
    assert settings["ingress.port"] > 0


def test_engines_of_two_folders_begin_at_different_ports(cache: Path) -> None:
    wanted = choose(cache, "@acme/here")
    first = settings_for(Order(), loaded(), wanted, UpState(cache / "a"), "")
    second = settings_for(Order(), loaded(), wanted, UpState(cache / "b"), "")
    assert first["fleet.port_first"] != second["fleet.port_first"]
    ranged = loaded(fleet_port_last="18010")
    assert "fleet.port_first" not in settings_for(Order(), ranged, wanted, UpState(cache), "")
