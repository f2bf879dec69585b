"""The state folder of `penstock up`: one run at a time, and a key that only its owner reads."""

import shutil
from pathlib import Path

import pytest

from penstock.catalogue import CatalogueSettings
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.up.attached import ServedModel, write_entry
from penstock.cli.up.known_models import known_models
from penstock.cli.up.state import Credentials, ProcessMark, Running, UpState
from penstock.config import Config
from penstock.records.dialect import VLLM


def test_key_is_kept_for_the_owner_alone(tmp_path: Path) -> None:
    state = UpState(tmp_path)
    assert state.read_credentials() is None
    kept = Credentials(account="a" * 32, key="k", secret="psk_x")
    state.write_credentials(kept)
    assert state.read_credentials() == kept
    assert (tmp_path / "account.json").stat().st_mode & 0o777 == 0o600
    assert state.read_operator_key() == ""
    state.write_operator_key("psk_o")
    assert state.read_operator_key() == "psk_o"
    assert state.operator_key.stat().st_mode & 0o777 == 0o600
    state.operator_key.write_bytes(b"\xff")
    assert state.read_operator_key() == "\ufffd"


def test_folder_is_for_one_run_at_a_time(tmp_path: Path) -> None:
    state = UpState(tmp_path / "state")
    looks = [state.is_held]
    with state.held():
        looks.append(state.is_held)
        with pytest.raises(CommandFailed, match="Another `penstock up`") as failed, state.held():
            pass
        assert failed.value.code is ExitCode.TAKEN
    looks.append(state.is_held)
    assert looks == [False, True, False]
    with state.held():
        pass


def test_a_removed_folder_is_noticed(tmp_path: Path) -> None:
    state = UpState(tmp_path / "state")
    with state.held():
        assert not state.is_gone
        shutil.rmtree(state.root)
        assert state.is_gone


def test_folder_keeps_itself_out_of_version_control(tmp_path: Path) -> None:
    state = UpState(tmp_path / "state")
    with state.held():
        assert (state.root / ".gitignore").read_text() == "*\n"


def test_present_run_is_written_down_and_forgotten(tmp_path: Path) -> None:
    state = UpState(tmp_path)
    running = Running("127.0.0.1", 8787, 8788, (ProcessMark("gateway", 1, 2),))
    state.write_running(running)
    assert state.read_running() == running
    state.forget_running()
    state.forget_running()
    assert state.read_running() is None


def test_commands_know_the_models_of_the_run_that_they_ask(tmp_path: Path) -> None:
    state = UpState(tmp_path)
    state.models.mkdir()
    write_entry(state.models, ServedModel("acme/answers"), VLLM)
    state.write_running(Running("127.0.0.1", 8787, 8788, (), "acme/answers"))
    assert known_models(Config(), tmp_path).find("default").id == "acme/answers"
    set_otherwise = Config(catalogue=CatalogueSettings(default_model="smollm2"))
    assert "smollm2" in known_models(set_otherwise, tmp_path).find("default").aliases


def test_file_that_was_cut_in_the_middle_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "account.json").write_text('{"account": "a')
    assert UpState(tmp_path).read_credentials() is None


def test_sockets_of_a_deep_folder_go_elsewhere(tmp_path: Path) -> None:
    deep = UpState(tmp_path / ("x" * 100))
    assert len(str(deep.run_folder / "4194304.sock")) < 107
    assert deep.run_folder == UpState(deep.root).run_folder
    assert UpState(Path("/srv/p")).run_folder == Path("/srv/p/run")
