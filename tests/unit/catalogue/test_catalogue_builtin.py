"""The entries that we ship: what they promise, and that the command lines keep to it."""

import pytest

from penstock.catalogue import (
    Catalogue,
    CatalogueSettings,
    LaunchValues,
    fill,
    load_catalogue,
    takes_key,
)
from penstock.catalogue.models import BUILTIN_FOLDER
from penstock.records.model import Capability, Family, Model
from penstock.records.price import Prices

CATALOGUE = load_catalogue(CatalogueSettings())
KIMI_CAPABILITIES = {
    Capability.TOOLS,
    Capability.VISION,
    Capability.REASONING,
    Capability.STRUCTURED_OUTPUT,
    Capability.ASYNC_QUEUE,
}
CPU_MODELS = ["smollm2", "tiny-vision"]


@pytest.fixture(params=CATALOGUE.models, ids=lambda model: model.id)
def model(request: pytest.FixtureRequest) -> Model:
    assert isinstance(request.param, Model)
    return request.param


def option(model: Model, name: str) -> str:
    return model.recipe.command[model.recipe.command.index(name) + 1]


def test_the_models_of_the_first_release_are_there() -> None:
    assert [model.id for model in CATALOGUE.models] == [
        "@cf/meta/llama-3.3-70b-instruct-fp8-fast",
        "@cf/moonshotai/kimi-k2.5",
        "@cf/moonshotai/kimi-k2.6",
        "@cf/openai/gpt-oss-120b",
        "@cf/openai/gpt-oss-20b",
        "@local/huggingfacetb/smollm2-135m-embeddings",
        "@local/huggingfacetb/smollm2-135m-instruct",
        "@local/penstock/tiny-vision",
    ]


def test_every_built_in_file_is_an_entry() -> None:
    assert len(list(BUILTIN_FOLDER.iterdir())) == len(CATALOGUE.models)


def test_there_is_no_default_model_until_the_operator_names_one() -> None:
    assert CATALOGUE.default is None


def test_engine_counts_cached_tokens_and_can_be_drained(model: Model) -> None:
    command = model.recipe.command
    assert "--enable-prompt-tokens-details" in command
    assert "--enable-prefix-caching" in command
    assert option(model, "--scheduling-policy") == "priority"
    assert int(option(model, "--shutdown-timeout")) == 60


def test_engine_answers_under_the_catalogue_id(model: Model) -> None:
    assert option(model, "--served-model-name") == model.recipe.served_name == model.id


def test_engine_enforces_the_context_that_the_entry_promises(model: Model) -> None:
    assert int(option(model, "--max-model-len")) == model.context_tokens


def test_engine_runs_as_many_requests_as_a_replica_counts_free(model: Model) -> None:
    assert int(option(model, "--max-num-seqs")) == model.recipe.slots_live


def test_engine_listens_where_its_keeper_says_and_wants_a_key(model: Model) -> None:
    assert option(model, "--host") == "{address}"
    assert model.recipe.environment["VLLM_API_KEY"] == "{engine_key}"
    assert takes_key(model.recipe)


def test_model_that_takes_tools_has_a_parser_for_them(model: Model) -> None:
    if model.has(Capability.TOOLS):
        assert "--tool-call-parser" in model.recipe.command
        assert "--enable-auto-tool-choice" in model.recipe.command


def test_model_that_reasons_has_a_parser_for_it(model: Model) -> None:
    assert model.has(Capability.REASONING) == ("--reasoning-parser" in model.recipe.command)


def test_gpus_are_as_many_as_the_tensor_is_cut_into(model: Model) -> None:
    if model.recipe.gpus:
        assert int(option(model, "--tensor-parallel-size")) == model.recipe.gpus


def test_engine_reports_nothing_to_its_makers(model: Model) -> None:
    assert model.recipe.environment["VLLM_NO_USAGE_STATS"] == "1"
    assert model.recipe.environment["DO_NOT_TRACK"] == "1"


def test_every_recipe_can_be_filled(model: Model) -> None:
    argv, environment = fill(model.recipe, LaunchValues(8123, engine_home="/srv/engine"))
    assert argv[argv.index("--port") + 1] == "8123"
    assert not any("{engine_home}" in text for text in [*argv, *environment.values()])


def test_kimi_k2_5_costs_what_is_published() -> None:
    kimi = CATALOGUE.find("@cf/moonshotai/kimi-k2.5")
    assert kimi.prices == (
        Prices(
            input_nanousd_per_mtok=600_000_000,
            cached_input_nanousd_per_mtok=100_000_000,
            output_nanousd_per_mtok=3_000_000_000,
        ),
    )
    assert kimi.context_tokens == 256_000
    assert kimi.capabilities == KIMI_CAPABILITIES
    assert kimi.recipe.gpus == 8


def test_kimi_k2_6_has_the_longer_context() -> None:
    kimi = CATALOGUE.find("@cf/moonshotai/kimi-k2.6")
    assert kimi.context_tokens == 262_144
    assert kimi.capabilities == KIMI_CAPABILITIES


def test_only_llama_speaks_the_native_family() -> None:
    native = [model.id for model in CATALOGUE.models if model.family is Family.NATIVE]
    assert native == ["@cf/meta/llama-3.3-70b-instruct-fp8-fast"]


@pytest.mark.parametrize("alias", CPU_MODELS)
def test_cpu_model_starts_from_the_engine_home_without_a_gpu(alias: str) -> None:
    model = CATALOGUE.find(alias)
    argv, environment = fill(model.recipe, LaunchValues(8123, engine_home="/srv/engine"))
    assert argv[:3] == ["/srv/engine/venv/bin/vllm", "serve", f"/srv/engine/models/{alias}"]
    assert environment["LD_PRELOAD"] == "/srv/engine/venv/lib/libiomp5.so"
    assert environment["VLLM_TARGET_DEVICE"] == "cpu"
    assert (model.recipe.gpus, model.recipe.slots_live) == (0, 16)
    assert model.default_output_tokens == 256


def test_small_model_takes_tools_and_schemas_but_no_images() -> None:
    model = CATALOGUE.find("@local/huggingfacetb/smollm2-135m-instruct")
    assert model.capabilities == {
        Capability.TOOLS,
        Capability.STRUCTURED_OUTPUT,
        Capability.ASYNC_QUEUE,
    }
    assert model.context_tokens == 8192


def test_tiny_vision_model_takes_two_images() -> None:
    model = CATALOGUE.find("@local/penstock/tiny-vision")
    assert model.capabilities == {Capability.VISION}
    assert model.context_tokens == 2048
    assert option(model, "--limit-mm-per-prompt") == '{"image":2}'


def test_loading_twice_gives_the_same_models() -> None:
    again: Catalogue = load_catalogue(CatalogueSettings())
    assert again.models == CATALOGUE.models
