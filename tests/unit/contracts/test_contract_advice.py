"""What the advice says to write can be pasted, and makes the file pass."""

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.contracts.contract_samples import CATALOGUE, MODELS, TOP

from penstock.catalogue import CatalogueSettings, load_catalogue
from penstock.contracts.advice import EXAMPLES, TABLES, explain, join
from penstock.contracts.compiling import check_texts
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import Contract

BUILTIN = load_catalogue(CatalogueSettings())
RULES = f'{TOP}{MODELS}[[models.rule]]\nclass = "extract"\nwhen = {{ tools = 0 }}\n'


def check(text: str) -> None:
    check_texts({"one.toml": text}, CATALOGUE)


def pasted(text: str, line: str) -> str:
    """Return the file with the advised line instead of `line`."""
    with pytest.raises(ContractError) as caught:
        check(text)
    assert text.count(line) == 1
    return text.replace(line, caught.value.advice.rpartition("Write ")[2])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # A missing line: the advice is written where it belongs, marked by `#`.
        ('#\nname = "w"', "#"),
        ("schema = 1\n#", "#"),
        (f"{TOP}[models]\n#", "#"),
        (f'{TOP}{MODELS}[[models.rule]]\nclass = "extract"\n#', "#"),
        (f"{TOP}{MODELS}[[models.rule]]\nwhen = {{ tools = 0 }}\n#", "#"),
        ('schema = 2\nname = "w"', "schema = 2"),
        ('schema = 1\nname = "code review"', 'name = "code review"'),
        (f'{TOP}acounts = ["*"]', 'acounts = ["*"]'),
        (f'{TOP}accounts = "*"', 'accounts = "*"'),
        (f'{TOP}accounts = ["*", "acme"]', 'accounts = ["*", "acme"]'),
        (f'{TOP}mode = "enforced"', 'mode = "enforced"'),
        (f"{TOP}mode = 1", "mode = 1"),
        (f'{TOP}[output]\ntokens_max = "4096"', 'tokens_max = "4096"'),
        (f"{TOP}[output]\ntokens_max = 0", "tokens_max = 0"),
        (f"{TOP}[output]\nmax_tokens = 4096", "max_tokens = 4096"),
        (f"{TOP}[output]\ntokens_max = 100_000\n{MODELS}", "tokens_max = 100_000"),
        (f"{TOP}output = 4096", "output = 4096"),
        (f"{TOP}output = {{}}", "output = {}"),
        (f"{TOP}tool_output = 16_384", "tool_output = 16_384"),
        (f"{TOP}[tool_output]\n#", "#"),
        (f"{TOP}[tool_output]\nbytes_max = 1000", "bytes_max = 1000"),
        (f"{TOP}[tool_output]\nbyte_max = 2000", "byte_max = 2000"),
        (f"{TOP}[tool_output]\nbytes_max = 2000\ntail_share = 40", "tail_share = 40"),
        (f"{TOP}[tool_output]\nbytes_max = 2000\nexempt = ['*']", "exempt = ['*']"),
        (f"{TOP}[tool_output]\nbytes_max = 2000\nexempt = ['a*', 'ab']", "exempt = ['a*', 'ab']"),
        (f"{TOP}prompt.tokens_max = 200\n[tool_output]\nbytes_max = 4000", "bytes_max = 4000"),
        (f"{TOP}[objectives]\nsuccess = 99.5", "success = 99.5"),
        (f"{TOP}[objectives]\nfirst_token_ms.p95 = 1999", "p95 = 1999"),
        (f'{TOP}models = "big"', 'models = "big"'),
        (f'{TOP}[models]\ndefault = "bgi"', 'default = "bgi"'),
        (f'{TOP}[models]\ndefault = "big"\n[models.class]\nextract = "smal"', 'extract = "smal"'),
        (f'{TOP}{MODELS}asked = "overide"', 'asked = "overide"'),
        (f'{TOP}[models]\ndefault = "big"\nclass = "small"', 'class = "small"'),
        (RULES.replace('class = "extract"', 'class = "extrct"'), 'class = "extrct"'),
        (RULES.replace("{ tools = 0 }", "{}"), "when = {}"),
        (RULES.replace("when =", "wen ="), "wen = { tools = 0 }"),
        (f"{RULES}[models.rule.when]\n".replace("when = { tools = 0 }\n", "") + 'api = "messges"',
         'api = "messges"'),
        (RULES.replace("{ tools = 0 }", "{ tools_min = 2, tools_max = 1 }"),
         "when = { tools_min = 2, tools_max = 1 }"),
        (f"{TOP}critical = 'no'", "critical = 'no'"),
        (f"{TOP}critical = true", "critical = true"),
        (f"{TOP}budget = {{}}", "budget = {}"),
        (f"{TOP}[budget]\nusd_per_day = 'ten'", "usd_per_day = 'ten'"),
        (f"{TOP}[budget]\nusd_per_day = 0", "usd_per_day = 0"),
        (f"{TOP}[budget]\nusd_per_day = 0.0000000001", "usd_per_day = 0.0000000001"),
        (f"{TOP}[budget]\nusd_a_day = 25", "usd_a_day = 25"),
        (f"{TOP}[budget]\ntokens_per_day = '5M'", "tokens_per_day = '5M'"),
        (f"{TOP}[budget]\nsession = {{}}", "session = {}"),
        (f"{TOP}[budget]\nrequests_per_day = 50\n[budget.session]\nrequests_per_day = 60",
         "requests_per_day = 60"),
        (f"{TOP}{MODELS}[budget.fallback]\nmodel = 'smal'", "model = 'smal'"),
        (f"{TOP}{MODELS}[budget.fallback]\n#", "#"),
        (f"{TOP}[tools]\n#", "#"),
        (f'{TOP}tools = "deny"', 'tools = "deny"'),
        (f'{TOP}[tools]\ndefault = "denied"', 'default = "denied"'),
        (f'{TOP}[tools]\ndefault = "approve"', 'default = "approve"'),
        (f'{TOP}[tools]\ndefault = "allow"\ntext_calls = "leave"', 'default = "allow"'),
        (f'{TOP}[tools]\ndefault = "deny"\nallow = "grep"', 'allow = "grep"'),
        (f'{TOP}[tools]\ndefault = "deny"\nallow = ["read file"]', 'allow = ["read file"]'),
        (f'{TOP}[tools]\ndefault = "deny"\nalow = ["grep"]', 'alow = ["grep"]'),
        (f'{TOP}[tools]\ndefault = "deny"\noffered = "striped"', 'offered = "striped"'),
        (f'{TOP}[tools]\ndefault = "deny"\non_forbidden = "eror"', 'on_forbidden = "eror"'),
        (f'{TOP}[tools]\ndefault = "deny"\ntext_calls = "leaves"', 'text_calls = "leaves"'),
        # A pattern in both lists.
        (f'{TOP}[tools]\ndefault = "allow"\nallow = ["bash"]\ndeny = ["Bash"]', 'allow = ["bash"]'),
        # A deny that a longer allow always beats, and an allow that a deny always beats.
        (f'{TOP}[tools]\ndefault = "allow"\nallow = ["*bash*"]\ndeny = ["bash", "b*"]',
         'deny = ["bash", "b*"]'),
        # What a shorter one of the same list covers, with nothing between.
        (f'{TOP}[tools]\ndefault = "deny"\nallow = ["read_*", "read_file"]',
         'allow = ["read_*", "read_file"]'),
        # What the default says already.
        (f'{TOP}[tools]\ndefault = "allow"\nallow = ["grep"]\ndeny = ["b*"]', 'allow = ["grep"]'),
        (f'{TOP}[tools]\ndefault = "deny"\nallow = ["grep"]\ndeny = ["bash"]', 'deny = ["bash"]'),
    ],
)  # fmt: skip
def test_a_file_passes_once_the_advice_is_pasted(text: str, line: str) -> None:
    check(pasted(text, line))


def test_a_value_that_is_nearly_right_becomes_the_one_that_was_meant() -> None:
    assert 'mode = "enforce"' in pasted(f'{TOP}mode = "enforced"', 'mode = "enforced"')
    assert 'mode = "observe"' in pasted(f'{TOP}mode = "observed"', 'mode = "observed"')
    assert 'default = "big"' in pasted(f'{TOP}[models]\ndefault = "bgi"', 'default = "bgi"')


def test_every_key_has_an_example_and_every_example_a_key() -> None:
    keys = {
        join(table, field.encode_name)
        for table, kind in TABLES.items()
        for field in msgspec.structs.fields(kind)
    }
    assert keys == set(EXAMPLES)


def test_every_table_of_the_file_is_known_to_the_advice() -> None:
    found: set[type[msgspec.Struct]] = set()
    todo: list[type[msgspec.Struct]] = [Contract]
    while todo:
        kind = todo.pop()
        found.add(kind)
        for field in msgspec.structs.fields(kind):
            todo += [each for each in parts(field.type) if each not in found]
    assert found == set(TABLES.values())


NAMES = [*sorted({field.rpartition(".")[2] for field in EXAMPLES}), "colour", "tools", "a b"]
VALUES = st.recursive(
    st.integers(-1, 5)
    | st.booleans()
    | st.floats(0, 2)
    | st.sampled_from(("", "x", "observe", "*")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3), st.booleans())
def test_whatever_is_wrong_has_a_key_and_advice(wrong: dict[str, Any], is_rule: bool) -> None:
    table: dict[str, Any] = {"default": "big", **wrong}
    if is_rule:
        table = {"default": "big", "rule": [{"class": "x", "when": {}, **wrong}]}
    document = {"schema": 1, "name": "w", **wrong, "models": table}
    try:
        msgspec.convert(document, Contract)
    except msgspec.ValidationError as complaint:
        error = explain(str(complaint), document)
        assert error.key
        assert error.advice


def parts(kind: object) -> list[type[msgspec.Struct]]:
    """Return the records within a type, such as `tuple[Rule, ...] | None`."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [found for inner in typing.get_args(kind) for found in parts(inner)]


@pytest.mark.parametrize("key", [key for key in EXAMPLES if not key.startswith("models.rule.")])
def test_every_example_is_valid_with_the_models_that_are_built_in(key: str) -> None:
    table = key.rpartition(".")[0]
    given = {"schema": "schema = 1", "name": 'name = "w"', key: EXAMPLES[key]}
    if table == "models" and key != "models.default":
        given["models.default"] = EXAMPLES["models.default"]
    if table == "tools" and key != "tools.default":
        given["tools.default"] = 'default = "allow"' if key == "tools.deny" else 'default = "deny"'
    if key == "models.rule":
        given["models.class"] = EXAMPLES["models.class"]
    if table == "objectives" and key.endswith("window_days"):
        given["objectives.success"] = EXAMPLES["objectives.success"]
    if table == "tool_output" and key != "tool_output.bytes_max":
        given["tool_output.bytes_max"] = EXAMPLES["tool_output.bytes_max"]
    if key == "budget.fallback.left_share_min":
        given["budget.fallback.model"] = EXAMPLES["budget.fallback.model"]
    inside = [line for name, line in given.items() if name.rpartition(".")[0] == table and table]
    top = [line for name, line in given.items() if "." not in name]
    text = "\n".join([*top, f"[{table}]" if table else "", *inside])
    check_texts({"one.toml": text}, BUILTIN)


@pytest.mark.parametrize("key", [key for key in EXAMPLES if key.startswith("models.rule.when.")])
def test_every_example_of_a_condition_is_valid(key: str) -> None:
    rule = f'rule = [{{ class = "extract", when = {{ {EXAMPLES[key]} }} }}]'
    text = "\n".join([TOP, "[models]", EXAMPLES["models.default"], EXAMPLES["models.class"], rule])
    check_texts({"one.toml": text}, BUILTIN)
