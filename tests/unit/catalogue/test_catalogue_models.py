"""The catalogue as a whole: names, clashes, the operator's folder, and find on the request path."""

import re
import string
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalogue import Catalogue, CatalogueError, CatalogueSettings, load_catalogue
from penstock.catalogue.names import fault_in
from penstock.errors import MalformedModel, UnknownModel
from penstock.records.model import Family, Model, ModelId, Recipe

KIMI = "@cf/moonshotai/kimi-k2.5"
PART = st.text(string.ascii_letters + string.digits + "@._:-", min_size=1, max_size=20)
NAMES = st.lists(PART, min_size=1, max_size=5).map("/".join)


def model_of(name: str, *aliases: str) -> Model:
    return Model(
        id=ModelId(name),
        family=Family.OPENAI,
        context_tokens=8192,
        recipe=Recipe(command=("vllm", "{port}")),
        aliases=aliases,
    )


def entry_of(name: str, *aliases: str, extra: str = "") -> str:
    quoted = ", ".join(f'"{alias}"' for alias in aliases)
    return (
        f'id = "{name}"\naliases = [{quoted}]\nfamily = "native"\ncontext_tokens = 8192\n{extra}\n'
        '[recipe]\ncommand = ["vllm", "serve", "x", "--port", "{port}"]\n'
    )


def refusal(settings: CatalogueSettings) -> CatalogueError:
    with pytest.raises(CatalogueError) as caught:
        load_catalogue(settings)
    return caught.value


def test_model_is_found_by_id_and_by_alias() -> None:
    catalogue = load_catalogue(CatalogueSettings())
    assert catalogue.find(KIMI) is catalogue.find("kimi-k2.5")


@pytest.mark.parametrize("name", ["MOONSHOTAI/kimi-K2.5", "KIMI-k2.5", KIMI.upper()])
def test_case_of_a_name_does_not_matter(name: str) -> None:
    catalogue = load_catalogue(CatalogueSettings())
    assert catalogue.find(name).id == KIMI


def test_names_that_differ_by_case_alone_are_found_by_exact_spelling_only() -> None:
    catalogue = Catalogue([model_of("acme/One"), model_of("acme/one")])
    assert catalogue.find("acme/One").id == "acme/One"
    assert catalogue.find("acme/one").id == "acme/one"
    with pytest.raises(UnknownModel):
        catalogue.find("acme/ONE")


def test_similar_name_is_found_for_the_command_line() -> None:
    catalogue = Catalogue([model_of("acme/open-model"), model_of("other")])
    assert catalogue.similar("acme/opn-model") == "acme/open-model"
    assert catalogue.similar("nothing-like-it") == ""


def test_default_is_the_model_that_the_settings_name() -> None:
    catalogue = load_catalogue(CatalogueSettings(default_model="smollm2"))
    assert catalogue.default is catalogue.find("default") is catalogue.find("smollm2")


def test_default_is_refused_with_how_to_set_it() -> None:
    with pytest.raises(UnknownModel, match=re.escape("`default_model` under [catalogue]")):
        load_catalogue(CatalogueSettings()).find("default")


def test_default_model_must_be_in_the_catalogue() -> None:
    error = refusal(CatalogueSettings(default_model="kimmi"))
    assert error.key == "catalogue.default_model"
    assert KIMI in error.advice


@given(name=NAMES.filter(lambda name: len(name) <= 256))
def test_well_formed_name_that_is_not_there_is_unknown(name: str) -> None:
    catalogue = Catalogue([])
    with pytest.raises(UnknownModel) as caught:
        catalogue.find(name)
    assert caught.value.param == "model"


@given(name=NAMES | st.binary(max_size=300).map(lambda data: data.decode("latin-1")))
def test_find_never_fails_in_another_way(name: str) -> None:
    catalogue = Catalogue([model_of("a/b", "c")])
    allowed = set(string.ascii_letters + string.digits + "@._:/-")
    is_well_formed = (
        0 < len(name) <= 256 and set(name) <= allowed and all(part for part in name.split("/"))
    )
    try:
        found = catalogue.find(name)
        assert name.lower() in {found.id, *found.aliases}
        assert name.isascii()
    except UnknownModel:
        assert is_well_formed
    except MalformedModel:
        assert not is_well_formed


@given(names=st.lists(NAMES.filter(lambda name: name != "default"), min_size=1, unique=True))
def test_every_name_finds_its_own_model(names: list[str]) -> None:
    models = [model_of(name) for name in names[::2]]
    for model, alias in zip(models, names[1::2], strict=False):
        models[models.index(model)] = msgspec.structs.replace(model, aliases=(alias,))
    catalogue = Catalogue(models)
    for model in models:
        assert all(catalogue.find(name) == model for name in (model.id, *model.aliases))


@pytest.mark.parametrize(
    "name",
    ["", "a" * 257, "a b", "a\n", "ä", "a%2Fb", "a\\b", "/a", "a/", "a//b", "/", "a?b", "{a}"],
)
def test_malformed_name_is_refused_as_such(name: str) -> None:
    with pytest.raises(MalformedModel) as caught:
        Catalogue([]).find(name)
    assert fault_in(name) in caught.value.message


def test_longest_name_is_well_formed() -> None:
    with pytest.raises(UnknownModel):
        Catalogue([]).find("a" * 256)


def test_models_come_in_the_order_of_their_ids() -> None:
    catalogue = Catalogue([model_of("b"), model_of("a"), model_of("c")])
    assert [model.id for model in catalogue.models] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (model_of("a", "x"), model_of("b", "x")),
        (model_of("a", "b"), model_of("b")),
        (model_of("a"), model_of("b", "a")),
        (model_of("a"), model_of("a", "x")),
    ],
)
def test_name_of_two_models_is_refused(one: Model, two: Model) -> None:
    with pytest.raises(CatalogueError, match="is already a name of"):
        Catalogue([one, two])


def test_operators_entry_joins_the_built_in_ones(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(entry_of("@cf/acme/one", "one"))
    catalogue = load_catalogue(CatalogueSettings(folder=str(tmp_path), default_model="one"))
    assert catalogue.find("default").id == "@cf/acme/one"
    assert catalogue.find(KIMI).id == KIMI


def test_operators_entry_replaces_the_built_in_one_of_its_id(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(entry_of(KIMI, "kimi"))
    catalogue = load_catalogue(CatalogueSettings(folder=str(tmp_path)))
    assert catalogue.find("kimi").family is Family.NATIVE
    assert len(catalogue.models) == len(load_catalogue(CatalogueSettings()).models)
    with pytest.raises(UnknownModel):
        catalogue.find("kimi-k2.5")


def test_alias_of_another_model_is_refused_with_the_operators_file(tmp_path: Path) -> None:
    path = tmp_path / "zz.toml"
    path.write_text(entry_of("@zz/acme/one", "smollm2"))
    error = refusal(CatalogueSettings(folder=str(tmp_path)))
    assert error.file == str(path)
    assert error.key == "aliases"
    assert "`@local/huggingfacetb/smollm2-135m-instruct`" in error.problem


def test_two_files_with_one_id_are_refused_with_both_names(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(entry_of("@cf/acme/one"))
    (tmp_path / "b.toml").write_text(entry_of("@cf/acme/one"))
    error = refusal(CatalogueSettings(folder=str(tmp_path)))
    assert error.file.endswith("b.toml")
    assert "a.toml" in error.problem


def test_wrong_entry_is_refused_with_file_key_and_advice(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(entry_of("@cf/acme/one", extra="contxt_tokens = 5"))
    assert str(refusal(CatalogueSettings(folder=str(tmp_path)))) == (
        f"{path}: contxt_tokens: is not a key. Did you mean `context_tokens`?"
    )


def test_files_that_are_no_entries_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("not an entry")
    (tmp_path / ".one.toml").write_text("left by an editor")
    assert (
        load_catalogue(CatalogueSettings(folder=str(tmp_path))).models
        == load_catalogue(CatalogueSettings()).models
    )


def test_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    error = refusal(CatalogueSettings(folder=str(tmp_path / "nowhere")))
    assert error.key == "catalogue.folder"
    assert "Make it" in error.advice


def test_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.toml").mkdir()
    error = refusal(CatalogueSettings(folder=str(tmp_path)))
    assert "cannot be read" in error.problem


def test_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_bytes(b'id = "a"\n# caf\xe9\n')
    error = refusal(CatalogueSettings(folder=str(tmp_path)))
    assert error.line == 2
    assert "UTF-8" in error.advice


def test_too_large_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("#" * 2000)
    error = refusal(CatalogueSettings(folder=str(tmp_path), entry_bytes_max=1999))
    assert "entry_bytes_max" in error.advice


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.toml").write_text(entry_of(f"@cf/acme/{number}"))
    error = refusal(CatalogueSettings(folder=str(tmp_path), entries_max=7))
    assert "set entries_max under [catalogue] to 8" in error.advice


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="folders"):
        msgspec.convert({"folders": "x"}, CatalogueSettings)
