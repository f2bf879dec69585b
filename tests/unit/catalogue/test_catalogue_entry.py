"""Every kind of wrong entry is refused with its key or line and what to write instead."""

from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalogue import CatalogueError
from penstock.catalogue.advice import EXAMPLES, TABLES, explain
from penstock.catalogue.entry import read_entry
from penstock.records.model import Capability, Family, Model, Weights
from penstock.records.price import Prices

TOP = """
id = "@cf/acme/one"
family = "openai"
context_tokens = 8192
"""
RECIPE = """
[recipe]
command = ["vllm", "serve", "acme/one", "--port", "{port}"]
"""


def entry(top: str = "", recipe: str = "", tables: str = "") -> str:
    return f"{TOP}{top}\n{RECIPE}{recipe}\n{tables}\n"


def refusal(text: str) -> CatalogueError:
    with pytest.raises(CatalogueError) as caught:
        read_entry(text)
    return caught.value


def test_smallest_entry_gets_defaults_that_work() -> None:
    model = read_entry(entry())
    assert model.family is Family.OPENAI
    assert model.recipe.served_name == "@cf/acme/one"
    assert model.recipe.dialect == "vllm"
    assert model.prices == (Prices(),)
    assert model.capabilities == frozenset()


def test_whole_entry_is_read() -> None:
    model = read_entry(
        entry(
            top='aliases = ["one"]\ncapabilities = ["tools", "vision"]\ndescription = "d"\n'
            'allowed_accounts = ["a"]\ndefault_output_tokens = 100',
            recipe='served_name = "acme/one"\ngpus = 2\nslots_live = 4\nenvironment = {A = "1"}',
            tables="[prices]\ninput_nanousd_per_mtok = 5000\noutput_nanousd_per_mtok = 9000",
        )
    )
    assert model.aliases == ("one",)
    assert model.capabilities == {Capability.TOOLS, Capability.VISION}
    assert model.recipe.served_name == "acme/one"
    assert model.recipe.environment == {"A": "1"}
    assert model.allowed_accounts == ("a",)
    assert (model.recipe.gpus, model.recipe.slots_live) == (2, 4)


def test_cached_tokens_cost_as_much_as_others_unless_a_price_is_given() -> None:
    model = read_entry(entry(tables="[prices]\ninput_nanousd_per_mtok = 5000"))
    assert model.prices[0].cached_input_nanousd_per_mtok == 5000
    free = read_entry(
        entry(tables="[prices]\ninput_nanousd_per_mtok = 5000\ncached_input_nanousd_per_mtok = 0")
    )
    assert free.prices[0].cached_input_nanousd_per_mtok == 0


@pytest.mark.parametrize(
    ("dollars", "nanodollars"),
    [("0.60", 600_000_000), ("3", 3_000_000_000), ("0.000001001", 1001), ("1e-3", 10**6), ("0", 0)],
)
def test_prices_in_dollars_are_exact(dollars: str, nanodollars: int) -> None:
    (row,) = read_entry(
        entry(tables=f"[prices]\ninput_usd_per_mtok = {dollars}\nflex_bp = 5000")
    ).prices
    assert row.input_nanousd_per_mtok == nanodollars
    assert row.cached_input_nanousd_per_mtok == nanodollars


@pytest.mark.parametrize(
    "line",
    [
        "output_usd_per_mtok = 0.0000000001",
        "output_usd_per_mtok = -1",
        "output_usd_per_mtok = nan",
        "output_usd_per_mtok = inf",
        'output_usd_per_mtok = "0.60"',
        "output_usd_per_mtok = true",
        "output_usd_per_mtok = 1\noutput_nanousd_per_mtok = 1_000_000_000",
        "output_usd_per_mtok = 1e999999",
    ],
)
def test_what_is_no_price_in_dollars_is_refused_by_its_name(line: str) -> None:
    assert refusal(entry(tables=f"[prices]\n{line}")).key == "prices.output_usd_per_mtok"


@pytest.mark.parametrize(
    ("text", "key", "advice"),
    [
        (entry(top="contxt_tokens = 1"), "contxt_tokens", "Did you mean `context_tokens`?"),
        (entry(top="gpus = 1"), "gpus", "`gpus` belongs under [recipe]"),
        (entry(recipe="aliases = []"), "recipe.aliases", "belongs above the first [table]"),
        (entry(recipe="gpu = 1"), "recipe.gpu", "Did you mean `gpus`?"),
        (entry(top="colour = 1"), "colour", "The keys here are: id, family, context_tokens"),
        (entry(tables="[prices]\nzzz = 1"), "prices.zzz", "input_nanousd_per_mtok"),
        (RECIPE, "id", 'Write id = "@cf/'),
        ('id = "a"\ncontext_tokens = 1\n' + RECIPE, "family", 'Write family = "openai"'),
        (TOP, "recipe", "Write [recipe] and, below it, command"),
        (TOP + "[recipe]\ngpus = 1", "recipe.command", 'Write command = ["vllm"'),
    ],
)
def test_wrong_or_missing_key_is_named_with_the_right_one(text: str, key: str, advice: str) -> None:
    error = refusal(text)
    assert error.key == key
    assert advice in error.advice


@pytest.mark.parametrize(
    ("text", "key", "advice"),
    [
        (entry().replace("openai", "opnai"), "family", 'Did you mean "openai"? '),
        (entry().replace("openai", "x"), "family", "Write one of: openai, native"),
        (
            entry(top='capabilities = ["tools", "visin"]'),
            "capabilities[1]",
            'Did you mean "vision"? Write one of: tools, vision, reasoning, structured_output',
        ),
        (entry(top='aliases = "one"'), "aliases", 'Write aliases = ["one"]'),
        (entry(top="aliases = [1]"), "aliases[0]", 'Write aliases = ["one"]'),
        (entry(top="capabilities = [1]"), "capabilities[0]", "tools"),
        (entry().replace("8192", "0"), "context_tokens", "Write context_tokens = 131072"),
        (entry().replace("8192", '"8k"'), "context_tokens", "Write context_tokens = 131072"),
        (entry().replace("8192", "2026-01-01"), "context_tokens", "context_tokens = 131072"),
        (entry(recipe="gpus = 2000"), "recipe.gpus", "Write gpus = 8"),
        (entry(top="python_pattern = 1"), "python_pattern", "Write python_pattern = 'print"),
        (entry(top=f"python_pattern = '{'x' * 1001}'"), "python_pattern", "Write python_pattern"),
        (entry(recipe="gpus = true"), "recipe.gpus", "Write gpus = 8"),
        (entry(recipe="slots_live = 0"), "recipe.slots_live", "Write slots_live = 256"),
        (f"{TOP}[recipe]\ncommand = 'vllm'", "recipe.command", 'Write command = ["vllm"'),
        (f"{TOP}[recipe]\ncommand = [1]", "recipe.command[0]", 'Write command = ["vllm"'),
        (f"{TOP}recipe = 1", "recipe", "Write [recipe]"),
        (entry(recipe="environment = []"), "recipe.environment", "Write environment = {"),
        (
            entry(recipe='environment = { A = "x", OMP_NUM_THREADS = 1 }'),
            "recipe.environment.OMP_NUM_THREADS",
            'Write it in quotes: OMP_NUM_THREADS = "1"',
        ),
    ],
)
def test_wrong_value_is_refused_with_a_right_one(text: str, key: str, advice: str) -> None:
    error = refusal(text.replace('aliases = ["kimi"]', 'aliases = ["one"]'))
    assert error.key == key
    assert advice.replace('["one"]', '["kimi"]') in error.advice


@pytest.mark.parametrize(
    ("value", "suggestion"),
    [
        ("0.60", "output_usd_per_mtok = 0.60, or integer nano-dollars, 600000000"),
        ("0.293", "output_usd_per_mtok = 0.293, or integer nano-dollars, 293000000"),
        ("3", "output_usd_per_mtok = 3, or integer nano-dollars, 3000000000"),
        ('"$0.60"', "output_usd_per_mtok = 0.60, or"),
        ("-1", "output_usd_per_mtok = 0.60, or"),
        ("nan", "output_usd_per_mtok = 0.60, or"),
        ("inf", "output_usd_per_mtok = 0.60, or"),
        ("true", "output_usd_per_mtok = 0.60, or"),
        ("10000000000000000", "output_usd_per_mtok = 0.60, or"),
    ],
)
def test_dollars_under_the_nano_dollars_name_are_refused_with_both(
    value: str, suggestion: str
) -> None:
    error = refusal(entry(tables=f"[prices]\noutput_nanousd_per_mtok = {value}"))
    assert error.key == "prices.output_nanousd_per_mtok"
    assert suggestion in error.advice


@pytest.mark.parametrize(
    ("text", "key", "advice"),
    [
        (entry().replace("@cf/acme/one", "@cf//one"), "id", "Write a name like"),
        (entry().replace("@cf/acme/one", ""), "id", "Write a name like"),
        (entry().replace("@cf/acme/one", "default"), "id", "set default_model under [catalogue]"),
        (entry(top='aliases = ["a b"]'), "aliases", "Write a name like"),
        (entry(top='aliases = ["a", "a"]'), "aliases", "Write a name like"),
        (entry(top='aliases = ["@cf/acme/one"]'), "aliases", "Write a name like"),
        (entry(top='aliases = ["default"]'), "aliases", "set default_model under [catalogue]"),
        (entry(recipe='dialect = "vlm"'), "recipe.dialect", "Write one of: vllm"),
        (entry().replace("{port}", "{prt}"), "recipe.command", '"--port", "{port}"'),
        (entry(recipe='environment = {A = "{home}"}'), "recipe.environment.A", "{engine_home}"),
        (entry(recipe='environment = {"A=B" = "1"}'), "recipe.environment.A=B", 'NAME = "value"'),
        (entry(recipe='environment = {A = "\\u0000"}'), "recipe.environment.A", 'NAME = "value"'),
        (entry().replace('"serve"', '"\\u0000"'), "recipe.command", "Take it out"),
        (entry(top="default_output_tokens = 8192"), "default_output_tokens", "example 2048"),
    ],
)
def test_entry_that_could_not_be_served_is_refused(text: str, key: str, advice: str) -> None:
    error = refusal(text)
    assert error.key == key
    assert advice in error.advice


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("id = @cf/acme/one\n", 1),
        ('id = "a"\nfamily openai\n', 2),
        ('id = "a"\nid = "b"\n', 2),
        ('id = "a', None),
        ("id = " + "[" * 20_000, None),
        ("id = " + "1" * 10_000, None),
    ],
)
def test_text_that_is_not_toml_is_refused_with_its_line(text: str, line: int | None) -> None:
    error = refusal(text)
    assert "this is not TOML" in str(error)
    assert "Write `key = value` lines" in error.advice
    if line is not None:
        assert error.line == line


def test_file_is_added_to_the_message() -> None:
    error = refusal(entry(top="contxt_tokens = 1")).in_file("models/one.toml")
    assert str(error) == (
        "models/one.toml: contxt_tokens: is not a key. Did you mean `context_tokens`?"
    )


def test_line_is_added_to_the_message() -> None:
    error = refusal("x = \n").in_file("models/one.toml")
    assert str(error).startswith("models/one.toml, line 1: this is not TOML")


def test_every_key_has_an_example() -> None:
    keys = {
        f"{table}.{field.name}".lstrip(".")
        for table in TABLES
        if table != "prices"
        for field in msgspec.structs.fields(TABLES[table])
    }
    assert keys == set(EXAMPLES)


TEXT = st.text("ab`$. -'", max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.dates()
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXT, SCALARS, max_size=2)
WRONG = st.fixed_dictionaries(
    {},
    optional={
        "id": st.just("@cf/acme/one") | VALUES,
        "family": st.just("openai") | VALUES,
        "context_tokens": st.just(8192) | VALUES,
        "recipe": st.fixed_dictionaries(
            {}, optional={field.name: VALUES for field in msgspec.structs.fields(TABLES["recipe"])}
        )
        | VALUES,
        "prices": st.dictionaries(st.just("output_nanousd_per_mtok"), VALUES) | VALUES,
        "capabilities": VALUES,
        "aliases": VALUES,
        "x": VALUES,
    },
)


@given(document=WRONG)
def test_whatever_is_wrong_has_an_advice(document: dict[str, object]) -> None:
    try:
        msgspec.convert(document, Model)
    except msgspec.ValidationError as complaint:
        error = explain(str(complaint), document)
        assert error.key
        assert error.advice


BOOK = """
[[prices]]
input_nanousd_per_mtok = 5000
[[prices]]
input_nanousd_per_mtok = 6000
cached_input_nanousd_per_mtok = 1000
flex_bp = 4000
valid_from = 2027-01-01
[[prices]]
valid_from = 2027-02-01
"""


def test_price_book_of_several_rows_is_read_in_order() -> None:
    rows = read_entry(entry(tables=BOOK)).prices
    assert [row.input_nanousd_per_mtok for row in rows] == [5000, 6000, 0]
    assert [row.cached_input_nanousd_per_mtok for row in rows] == [5000, 1000, 0]
    assert [row.valid_from for row in rows] == [None, date(2027, 1, 1), date(2027, 2, 1)]
    assert [row.flex_bp for row in rows] == [5000, 4000, 5000]


@pytest.mark.parametrize(
    ("old", "new", "key", "advice"),
    [
        ("2027-02-01", "2027-01-01", "prices[2].valid_from", "oldest first"),
        ("2027-02-01", "2026-01-01", "prices[2].valid_from", "oldest first"),
        ("valid_from = 2027-01-01\n", "", "prices[1].valid_from", "oldest first"),
        ("= 5000\n", "= 5000\nvalid_from = 2020-01-01\n", "prices[0].valid_from", "oldest first"),
        ("2027-01-01", "2027-01-01T00:00:00Z", "prices[1].valid_from", "2027-01-01"),
        ("2027-01-01", '"next year"', "prices[1].valid_from", "2027-01-01"),
        ("= 6000", "= 6", "prices[1].input_nanousd_per_mtok", "usd_per_mtok = 6, or"),
        ("= 6000", "= 0.6", "prices[1].input_nanousd_per_mtok", "usd_per_mtok = 0.6, or"),
        ("= 4000", "= 0.5", "prices[1].flex_bp", "basis points"),
        ("= 4000", "= 1000001", "prices[1].flex_bp", "basis points"),
        ("flex_bp", "flex", "prices.flex", "flex_bp"),
    ],
)
def test_wrong_price_book_is_refused_by_its_row(old: str, new: str, key: str, advice: str) -> None:
    assert old in BOOK
    error = refusal(entry(tables=BOOK.replace(old, new, 1)))
    assert error.key == key
    assert advice in error.advice


@pytest.mark.parametrize("prices", ["prices = []", "prices = 5", 'prices = ["x"]', "prices = [5]"])
def test_price_book_that_is_none_is_refused(prices: str) -> None:
    error = refusal(entry(top=prices))
    assert error.key.startswith("prices")
    assert "[prices]" in error.advice


WEIGHTS = """
[recipe]
command = ["vllm", "serve", "{weights}", "--port", "{port}"]
[recipe.weights]
gigabytes = 59.5
"""


@pytest.mark.parametrize(
    "source",
    [
        "hf:Qwen/Qwen3-8B",
        "hf:openai/gpt-oss-20b@v1.0",
        "hf:a/b@refs/pr/1",
        "s3://models/kimi/k2",
        "s3://models",
        "/mnt/models/kimi",
    ],
)
def test_weights_have_a_source_and_a_size(source: str) -> None:
    recipe = read_entry(f'{TOP}{WEIGHTS}source = "{source}"').recipe
    assert recipe.weights == Weights(source, 59.5)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "Qwen/Qwen3-8B",
        "hf:Qwen",
        "hf:../etc",
        "hf:a/b/c",
        "hf:a/b@",
        "s3://",
        "s3://a/../b",
        "models/kimi",
        "/",
        "/mnt/../etc",
        "/mnt/\\u0000",
        "https://example.org/kimi",
    ],
)
def test_a_wrong_source_of_weights_is_refused_with_the_right_ones(source: str) -> None:
    error = refusal(f'{TOP}{WEIGHTS}source = "{source}"')
    assert error.key == "recipe.weights.source"
    assert "hf:owner/name" in error.advice


def test_weights_that_nobody_names_cannot_be_filled_in() -> None:
    error = refusal(entry().replace("acme/one", "{weights}", 2).replace("{weights}", "acme/one", 1))
    assert error.key == "recipe.command[2]"
    assert "[recipe.weights]" in error.advice


def test_a_recipe_without_weights_is_written_as_before() -> None:
    recipe = read_entry(entry()).recipe
    assert b"weights" not in msgspec.json.encode(recipe)
    assert msgspec.json.decode(msgspec.json.encode(recipe), type=type(recipe)) == recipe
