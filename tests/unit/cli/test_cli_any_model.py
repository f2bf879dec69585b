"""Models of Hugging Face that the catalogue does not have."""

from pathlib import Path

import pytest

from penstock.catalogue import CatalogueSettings, LaunchValues, fill, load_catalogue
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller
from penstock.cli.up.any_model import is_hugging_face_id, write_any_model
from penstock.cli.up.wanted import ModelChooser
from penstock.config import load

NAME = "Qwen/Qwen3-8B"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalogue folder on a machine without any vLLM."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    made = tmp_path / "models"
    made.mkdir()
    return made


@pytest.mark.parametrize("name", [NAME, "meta-llama/Llama-3.3-70B-Instruct", "a/b"])
def test_ids_of_hugging_face_are_known_by_their_form(name: str) -> None:
    assert is_hugging_face_id(name)


@pytest.mark.parametrize(
    "name", ["qwen", "@cf/openai/gpt", "a/b/c", "-a/b", "/b", "a/", "a/b c", "a/" + "b" * 97, ""]
)
def test_other_names_are_none(name: str) -> None:
    assert not is_hugging_face_id(name)


@pytest.mark.parametrize(
    ("program", "first"), [("vllm", "vllm"), ("{engine_home}/venv/bin/vllm", "/home/venv/bin/vllm")]
)
def test_entry_is_a_plain_vllm_with_what_penstock_promises(
    folder: Path, program: str, first: str
) -> None:
    write_any_model(folder, NAME, program, gpus=1)
    model = load_catalogue(CatalogueSettings(folder=str(folder))).find(NAME)
    argv, environment = fill(model.recipe, LaunchValues(4321, engine_home="/home"))
    assert argv[:3] == [first, "serve", NAME]
    assert argv[argv.index("--port") + 1] == "4321"
    assert "--enable-prompt-tokens-details" in argv
    assert model.recipe.has_priority
    assert ("LD_PRELOAD" in environment) is (program != "vllm")
    assert model.recipe.gpus == (1 if program == "vllm" else 0)


def test_any_model_is_run_where_vllm_is_installed(folder: Path) -> None:
    program = folder.parent / "bin" / "vllm"
    program.parent.mkdir()
    program.touch(mode=0o755)
    chooser = ModelChooser(load(None, {}).config, folder, HttpCaller())
    wanted = chooser.choose((NAME,), ())
    assert [model.id for model in wanted.models] == [NAME]
    assert "plain `vllm serve`" in wanted.notes[0]
    again = ModelChooser(load(None, {}).config, folder, HttpCaller()).choose((NAME.lower(),), ())
    assert again.models == wanted.models
    assert again.notes == ()


def test_a_host_with_a_gpu_uses_it_and_no_more_than_it_has(folder: Path) -> None:
    program = folder.parent / "bin" / "vllm"
    program.parent.mkdir()
    program.touch(mode=0o755)
    config = load(None, {"PENSTOCK_FLEET_GPUS": "1"}).config
    (model,) = ModelChooser(config, folder, HttpCaller()).choose((NAME,), ()).models
    assert model.recipe.gpus == 1
    with pytest.raises(CommandFailed, match="needs 9 GPUs, and this host has 1"):
        ModelChooser(config, folder, HttpCaller()).choose((NAME, "kimi-k2.5"), ())


@pytest.mark.parametrize(
    ("name", "words"), [(NAME, "where `vllm` is installed"), ("smolm2", "Did you mean `smollm2`")]
)
def test_what_cannot_be_run_is_refused_with_what_to_do(folder: Path, name: str, words: str) -> None:
    chooser = ModelChooser(load(None, {}).config, folder, HttpCaller())
    with pytest.raises(CommandFailed, match=words) as refused:
        chooser.choose((name,), ())
    assert refused.value.code is ExitCode.NOT_FOUND
    assert "penstock models list" in str(refused.value)
    assert list(folder.iterdir()) == []
