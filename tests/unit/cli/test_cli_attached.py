"""Catalogue entries for engines that somebody else has started."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalogue import CatalogueSettings, load_catalogue
from penstock.cli.up.attached import ServedModel, match, write_entry
from penstock.records.dialect import VLLM
from penstock.records.model import Capability, Family


@pytest.mark.parametrize("name", ["@cf/moonshotai/kimi-k2.5", "kimi-k2.5", "moonshotai/Kimi-K2.5"])
def test_engine_is_matched_by_any_name_of_a_model(name: str) -> None:
    model = match(load_catalogue(CatalogueSettings()), (ServedModel(name),))
    assert model is not None
    assert model.id == "@cf/moonshotai/kimi-k2.5"


def test_engine_with_several_names_is_matched_by_any_of_them() -> None:
    served = (ServedModel("/models/weights"), ServedModel("smollm2"))
    model = match(load_catalogue(CatalogueSettings()), served)
    assert model is not None
    assert "smollm2" in model.aliases


def test_model_called_default_is_not_taken_for_the_default_model() -> None:
    catalogue = load_catalogue(CatalogueSettings(default_model="smollm2"))
    assert match(catalogue, (ServedModel("default"),)) is None


def test_entry_says_what_the_engine_said(tmp_path: Path) -> None:
    path = write_entry(tmp_path, ServedModel("acme/answers", max_model_len=32768), VLLM)
    model = load_catalogue(CatalogueSettings(folder=str(tmp_path))).find("acme/answers")
    assert path.parent == tmp_path
    assert model.family is Family.OPENAI
    assert model.context_tokens == 32768
    can = {Capability.TOOLS, Capability.STRUCTURED_OUTPUT, Capability.ASYNC_QUEUE}
    assert model.capabilities == can
    assert model.recipe.served_name == "acme/answers"


@settings(deadline=None)
@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300),
    length=st.none() | st.integers(min_value=16, max_value=10**8),
)
def test_entry_for_any_name_loads_and_is_found_again(name: str, length: int | None) -> None:
    served = ServedModel(name, length)
    if match(load_catalogue(CatalogueSettings()), (served,)) is not None:
        return
    with tempfile.TemporaryDirectory() as folder:
        write_entry(Path(folder), served, VLLM)
        catalogue = load_catalogue(CatalogueSettings(folder=folder))
        model = match(catalogue, (served,))
        assert model is not None
        assert model.recipe.served_name == name
