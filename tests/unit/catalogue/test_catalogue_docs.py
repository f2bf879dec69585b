"""docs/catalogue.md: its example loads, and it names every key, capability and built-in model."""

import re
import textwrap
from pathlib import Path

import msgspec
import pytest

from penstock.catalogue import CatalogueError, CatalogueSettings, load_catalogue
from penstock.catalogue.advice import TABLES
from penstock.records.model import Capability, Family, Model

PAGE = (Path(__file__).parents[3] / "docs" / "catalogue.md").read_text()
EXAMPLE = textwrap.dedent(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
KEYS = [
    f"{table}.{field.name}".lstrip(".")
    for table, struct in TABLES.items()
    for field in msgspec.structs.fields(struct)
    if field.name not in TABLES
]


def test_example_is_an_entry_that_loads(tmp_path: Path) -> None:
    (tmp_path / "qwen3-8b.toml").write_text(EXAMPLE)
    model = load_catalogue(CatalogueSettings(folder=str(tmp_path))).find("qwen3-8b")
    assert model.id == "@cf/qwen/qwen3-8b"
    assert model.prices[0].output_nanousd_per_mtok == 200_000_000
    assert f'"--max-model-len", "{model.context_tokens}"' in EXAMPLE
    assert f'"--max-num-seqs", "{model.recipe.slots_live}"' in EXAMPLE


def test_refusal_in_the_page_is_the_one_that_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "qwen3-8b.toml"
    path.write_text(EXAMPLE.replace("context_tokens", "contxt_tokens", 1))
    with pytest.raises(CatalogueError) as caught:
        load_catalogue(CatalogueSettings(folder=str(tmp_path)))
    assert str(caught.value).replace(str(tmp_path), "/etc/penstock/models") in PAGE


@pytest.mark.parametrize("key", KEYS)
def test_key_has_its_row(key: str) -> None:
    assert f"\n| `{key}` |" in PAGE


@pytest.mark.parametrize("value", [*Family, *Capability])
def test_value_is_named(value: str) -> None:
    assert f"`{value}`" in PAGE


@pytest.mark.parametrize(
    "model", load_catalogue(CatalogueSettings()).models, ids=lambda model: model.id
)
def test_built_in_model_has_its_row(model: Model) -> None:
    aliases = ", ".join(f"`{alias}`" for alias in model.aliases)
    assert f"\n| `{model.id}` | {aliases} | {model.recipe.gpus} |" in PAGE
