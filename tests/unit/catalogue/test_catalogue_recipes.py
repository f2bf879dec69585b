"""fill: known blanks are filled once, everything else stays as it was written."""

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalogue import CatalogueError, LaunchValues, fill, takes_key, takes_weights
from penstock.catalogue.recipes import PLACEHOLDERS
from penstock.records.model import Recipe, Weights
from penstock.records.replica import ReplicaPart

# Text without braces cannot hold a placeholder.
PLAIN = st.text(string.printable.replace("{", "").replace("}", "") + "é\0", max_size=20)
WORDS = st.text(string.ascii_letters + "_", min_size=1, max_size=12)
PORTS = st.integers(min_value=1, max_value=65535)
HOMES = st.text(string.printable + "é", min_size=1, max_size=20)


def recipe_of(*command: str, **environment: str) -> Recipe:
    return Recipe(command=command, environment=environment)


def test_port_and_home_are_filled_in_command_and_environment() -> None:
    recipe = recipe_of("{engine_home}/vllm", "--port={port}", LD_PRELOAD="{engine_home}/a.so")
    argv, environment = fill(recipe, LaunchValues(8131, engine_home="/srv"))
    assert argv == ["/srv/vllm", "--port=8131"]
    assert environment == {"LD_PRELOAD": "/srv/a.so"}


@pytest.mark.parametrize(
    "json_text",
    ['{"image":2}', '{"model":"x","method":"eagle3"}', "{}", "{ }", '{"a":{"b":[]}}', "{1}"],
)
def test_json_in_an_argument_stays_as_it_is(json_text: str) -> None:
    argv, _ = fill(recipe_of(json_text), LaunchValues(1, engine_home="/srv"))
    assert argv == [json_text]


def test_blank_inside_json_is_filled() -> None:
    argv, _ = fill(recipe_of('{"kv_port":{port}}'), LaunchValues(9000, engine_home="/srv"))
    assert argv == ['{"kv_port":9000}']


@given(before=PLAIN, after=PLAIN, port=PORTS, home=HOMES)
def test_text_around_a_blank_is_kept(before: str, after: str, port: int, home: str) -> None:
    recipe = recipe_of(f"{before}{{port}}{after}", X=f"{before}{{engine_home}}{after}")
    argv, environment = fill(recipe, LaunchValues(port, engine_home=home))
    assert argv == [f"{before}{port}{after}"]
    assert environment == {"X": f"{before}{home}{after}"}


@given(texts=st.lists(PLAIN, max_size=5), port=PORTS)
def test_text_without_blanks_is_not_changed(texts: list[str], port: int) -> None:
    argv, _ = fill(recipe_of(*texts), LaunchValues(port, engine_home="/srv"))
    assert argv == texts


def test_braces_in_a_value_are_not_filled_again() -> None:
    argv, _ = fill(recipe_of("{engine_home}"), LaunchValues(1, engine_home="/srv/{port}/{x}"))
    assert argv == ["/srv/{port}/{x}"]


@given(word=WORDS.filter(lambda word: word not in PLACEHOLDERS))
def test_unknown_placeholder_is_refused_with_the_known_ones(word: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        fill(recipe_of("vllm", f"--x={{{word}}}"), LaunchValues(1, engine_home="/srv"))
    assert caught.value.key == "recipe.command[1]"
    assert f"{{{word}}} is not a placeholder" in str(caught.value)
    assert all(f"{{{name}}}" in caught.value.advice for name in PLACEHOLDERS)


def test_unknown_placeholder_in_the_environment_names_its_variable() -> None:
    with pytest.raises(CatalogueError, match=r"recipe\.environment\.X") as caught:
        fill(recipe_of("vllm", X="{enginehome}"), LaunchValues(1, engine_home="/srv"))
    assert "Did you mean {engine_home}?" in caught.value.advice


def test_recipe_that_needs_an_engine_home_is_refused_without_one() -> None:
    with pytest.raises(CatalogueError, match=r"needs \{engine_home\}, which is not set"):
        fill(recipe_of("{engine_home}/vllm"), LaunchValues(1, engine_home=""))


def test_recipe_without_engine_home_needs_none() -> None:
    argv, _ = fill(recipe_of("vllm", "{port}"), LaunchValues(1, engine_home=""))
    assert argv == ["vllm", "1"]


def test_an_engine_gets_its_address_gpus_and_key() -> None:
    recipe = recipe_of("vllm", "--host={address}", "-tp={gpu_count}", "{gpus}", KEY="{engine_key}")
    launch = LaunchValues(1, "10.0.0.7", gpus=("GPU-a", "GPU-b"), engine_key="secret")
    argv, environment = fill(recipe, launch)
    assert argv == ["vllm", "--host=10.0.0.7", "-tp=2", "GPU-a,GPU-b"]
    assert environment == {"KEY": "secret"}
    assert takes_key(recipe)


def test_an_engine_may_have_no_key_but_not_lack_gpus_that_it_names() -> None:
    assert fill(recipe_of("vllm", KEY="{engine_key}"), LaunchValues(1))[1] == {"KEY": ""}
    assert not takes_key(recipe_of("vllm"))
    with pytest.raises(CatalogueError) as caught:
        fill(recipe_of("vllm", "{gpus}"), LaunchValues(1))
    assert "gpus = 1" in caught.value.advice


def test_parts_on_several_hosts_find_the_first_one() -> None:
    recipe = msgspec.structs.replace(
        recipe_of("vllm", "-n={nodes}", "-r={node_rank}", "{master_address}:{master_port}"),
        part_arguments=("--headless", "{node_rank}"),
    )
    first = ReplicaPart(2, 0, master_address="10.0.0.1", master_port=29500)
    assert fill(recipe, LaunchValues(1, part=first))[0] == [
        *("vllm", "-n=2", "-r=0", "10.0.0.1:29500"),
    ]
    other = msgspec.structs.replace(first, rank=1)
    assert fill(recipe, LaunchValues(1, part=other))[0] == [
        *("vllm", "-n=2", "-r=1", "10.0.0.1:29500", "--headless", "1"),
    ]
    with pytest.raises(CatalogueError) as caught:
        fill(recipe, LaunchValues(1))
    assert "hosts = 2" in caught.value.advice


def test_weights_are_filled_in_and_only_then_waited_for() -> None:
    weights = Weights("/mnt/kimi", 1.0)
    recipe = Recipe(("vllm", "serve", "{weights}"), weights=weights)
    assert fill(recipe, LaunchValues(1, weights="/srv/kimi"))[0][2] == "/srv/kimi"
    assert takes_weights(recipe)
    assert not takes_weights(Recipe(("vllm",), weights=weights))


def test_recipe_with_weights_is_refused_where_they_have_no_folder() -> None:
    with pytest.raises(CatalogueError, match=r"needs \{weights\}, which is not set") as caught:
        fill(recipe_of("{weights}"), LaunchValues(1))
    assert "[recipe.weights]" in caught.value.advice
