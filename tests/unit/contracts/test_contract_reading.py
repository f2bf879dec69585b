"""Every kind of wrong contract is refused with its key and with what to do instead."""

from pathlib import Path

import pytest
from tests.unit.contracts.contract_samples import CATALOGUE, MODELS, TOP

from penstock.contracts.compiling import check_texts, compile_set
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import AskedModel, Mode
from penstock.contracts.reading import read_contract, read_folder
from penstock.contracts.settings import ContractsSettings

WHOLE = f"""{TOP}accounts = ["acme", "beta"]
mode = "observe"
prompt = {{ tokens_max = 50_000 }}
output = {{ tokens_max = 4096, choices_max = 2 }}
tool_output = {{ bytes_max = 16_384, tail_share = 0.25, exempt = ["read_*", "fetch"] }}
objectives = {{ first_token_ms = {{ p95 = 2000 }}, success = 0.995, window_days = 7 }}
{MODELS}asked = "override"
rule = [
  {{ class = "extract", when = {{ tools = 0, opening_bytes_max = 40_000 }} }},
  {{ class = "default", when = {{ tool = "fetch*" }} }},
]
"""


def refusal(text: str) -> ContractError:
    with pytest.raises(ContractError) as caught:
        check_texts({"one.toml": text}, CATALOGUE)
    assert caught.value.file == "one.toml"
    return caught.value


def rule(when: str, task: str = "extract") -> str:
    return f'{TOP}{MODELS}rule = [{{ class = "{task}", when = {{ {when} }} }}]'


def tool_output(more: str) -> str:
    return f"{TOP}[tool_output]\nbytes_max = 2000\n{more}"


def models(lines: str, default: str = 'default = "big"') -> str:
    return f"{TOP}[models]\n{default}\n{lines}"


def test_the_smallest_contract_gives_only_a_name() -> None:
    contract = read_contract(TOP)
    assert (contract.name, contract.mode, set(contract.accounts)) == (
        "code-review",
        Mode.ENFORCE,
        {"*"},
    )
    assert (contract.prompt, contract.output, contract.objectives, contract.models) == (None,) * 4


def test_a_whole_contract_is_read_and_passes() -> None:
    contract = check_texts({"one.toml": WHOLE}, CATALOGUE)["code-review"]
    assert contract.mode is Mode.OBSERVE
    assert contract.accounts == {"acme", "beta"}
    assert contract.output is not None
    assert (contract.output.tokens_max, contract.output.choices_max) == (4096, 2)
    assert contract.tool_output is not None
    assert contract.tool_output.exempt == frozenset({"read_*", "fetch"})
    assert contract.models is not None
    assert contract.models.asked is AskedModel.OVERRIDE
    assert [each.class_ for each in contract.models.rule] == ["extract", "default"]


WRONG_KEYS = [
    ("", "schema", "Write schema = 1"),
    ('name = "w"', "schema", "Write schema = 1"),
    ("schema = 1", "name", 'Write name = "code-review"'),
    (f"{TOP}colour = 1", "colour", "The keys here are: schema, name, accounts, mode, critical"),
    (f'{TOP}acounts = ["*"]', "acounts", 'Did you mean `accounts`? Write accounts = ["*"]'),
    (f"{TOP}tokens_max = 5", "tokens_max", "belongs in `prompt` or in `output`"),
    (f"{TOP}bytes_max = 5000", "bytes_max", "belongs in `tool_output`. There, write bytes_max ="),
    (tool_output("exmpt = ['a']"), "tool_output.exmpt", "Did you mean `exempt`? Write exempt ="),
    (f"{TOP}asked = 'obey'", "asked", 'belongs in `models`. There, write asked = "obey"'),
    (f"{TOP}[output]\nmode = 'observe'", "output.mode", "belongs above the first [table]"),
    (f"{TOP}[output]\ntoken_max = 1", "output.token_max", "Did you mean `tokens_max`?"),
    (f"{TOP}[prompt]\nzzz = 1", "prompt.zzz", "The keys here are: tokens_max"),
    (f"{TOP}[objectives]\nsucces = 0.9", "objectives.succes", "Write success = 0.995"),
    (f"{TOP}[objectives.first_token_ms]\np90 = 1", "objectives.first_token_ms.p90", "Write p9"),
    (models("askd = 'obey'"), "models.askd", 'Write asked = "obey"'),
    (f"{TOP}[models]\nasked = 'obey'", "models.default", "Write default ="),
    (models("rule = [{ when = { tools = 0 } }]"), "models.rule[0].class", 'Write class = "'),
    (models("rule = [{ class = 'default' }]"), "models.rule[0].when", "Write when = {"),
    (rule("tool_min = 1"), "models.rule[0].when.tool_min", "Write tools_min = 1"),
    (rule("tokens = 1"), "models.rule[0].when.tokens", "The keys here are: api, stream, tools"),
    (models("rule = [{ clas = 'x' }]"), "models.rule[0].clas", "Did you mean `class`?"),
]
WRONG_VALUES = [
    ('schema = 2\nname = "w"', "schema", "Write schema = 1"),
    ('schema = "1"\nname = "w"', "schema", "Write schema = 1"),
    ('schema = true\nname = "w"', "schema", "Write schema = 1"),
    ('schema = 1\nname = "a b"', "name", 'Write name = "code-review"'),
    ('schema = 1\nname = ""', "name", "Write name"),
    ('schema = 1\nname = "w\\n"', "name", "Write name"),
    (f'schema = 1\nname = "{"x" * 65}"', "name", "Write name"),
    ("schema = 1\nname = 5", "name", "Write name"),
    (f'{TOP}accounts = "acme"', "accounts", 'Write accounts = ["*"]'),
    (f"{TOP}accounts = []", "accounts", "Write accounts"),
    (f"{TOP}accounts = [5]", "accounts[0]", "Write accounts"),
    (f'{TOP}accounts = [""]', "accounts[0]", "Write accounts"),
    (f'{TOP}mode = "enforced"', "mode", 'enforce, observe. Write mode = "enforce"'),
    (f'{TOP}mode = "off"', "mode", 'Write mode = "observe"'),
    (f"{TOP}mode = true", "mode", 'Write mode = "observe"'),
    (f"{TOP}prompt = 5", "prompt", "Write prompt = {"),
    (f"{TOP}prompt = {{ tokens_max = 0 }}", "prompt.tokens_max", "Write tokens_max = 200_000"),
    (f"{TOP}output = [5]", "output", "Write output = {"),
    (f"{TOP}output = {{ tokens_max = 0 }}", "output.tokens_max", "Write tokens_max = 4096"),
    (f"{TOP}output = {{ tokens_max = -1 }}", "output.tokens_max", "Write tokens_max"),
    (f"{TOP}output = {{ tokens_max = '4k' }}", "output.tokens_max", "Write tokens_max"),
    (f"{TOP}output = {{ tokens_max = 1.5 }}", "output.tokens_max", "Write tokens_max"),
    (f"{TOP}output = {{ choices_max = 0 }}", "output.choices_max", "Write choices_max = 1"),
    (f"{TOP}output = {{ choices_max = 129 }}", "output.choices_max", "Write choices_max"),
    (f"{TOP}objectives = {{ success = 99.5 }}", "objectives.success", "Write success = 0.995"),
    (f"{TOP}objectives = {{ recovered = 1 }}", "objectives.recovered", "recovered = 0.99"),
    (f"{TOP}objectives = {{ window_days = 91 }}", "objectives.window_days", "window_days = 28"),
    (f"{TOP}[objectives.first_token_ms]\np95 = 1.5", "objectives.first_token_ms.p95", "= 2000"),
    (f"{TOP}models = 'big'", "models", "Write models = {"),
    (models("", "default = ''"), "models.default", "Write default"),
    (models("", "default = 5"), "models.default", "Write default"),
    (models("class = ['a']"), "models.class", "Write class = {"),
    (models("class = { extract = 5 }"), "models.class", "Write class = {"),
    (models('class = { "a b" = "big" }'), "models.class", "Write class = {"),
    (models("asked = 'overide'"), "models.asked", 'Write asked = "override"'),
    (models("rule = 5"), "models.rule", "Write rule = [{"),
    (models("rule = [5]"), "models.rule[0]", "Write rule = [{"),
    (rule("tools = -1"), "models.rule[0].when.tools", "Write tools = 0"),
    (rule("stream = 'yes'"), "models.rule[0].when.stream", "Write stream = false"),
    (rule("api = 'chatt'"), "models.rule[0].when.api", 'Write api = "chat"'),
    (rule("tool = ''"), "models.rule[0].when.tool", 'Write tool = "fetch*"'),
    (rule("images = 1"), "models.rule[0].when.images", "Write images = false"),
    (f"{TOP}tool_output = 16_384", "tool_output", "Write tool_output = {"),
    (f"{TOP}tool_output = {{ bytes_max = 1023 }}", "tool_output.bytes_max", "= 16_384"),
    (f"{TOP}tool_output = {{ bytes_max = '16k' }}", "tool_output.bytes_max", "= 16_384"),
    (f"{TOP}tool_output = {{ bytes_max = 20_000_000 }}", "tool_output.bytes_max", "= 16_384"),
    (tool_output("tail_share = 40"), "tool_output.tail_share", "Write tail_share = 0.4"),
    (tool_output("tail_share = 0"), "tool_output.tail_share", "Write tail_share = 0.4"),
    (tool_output("exempt = 'read'"), "tool_output.exempt", 'Write exempt = ["read_exact*"]'),
    (tool_output("exempt = []"), "tool_output.exempt", 'Write exempt = ["read_exact*"]'),
    (rule("tools = 0", "a b"), "models.rule[0].class", 'Write class = "extract"'),
]
WITHOUT_EFFECT = [
    (f"{TOP}prompt = {{}}", "prompt", "Write prompt = {"),
    (f"{TOP}[output]", "output", "Write output = {"),
    (f"{TOP}objectives = {{ window_days = 7 }}", "objectives", "Write objectives = {"),
    (f"{TOP}objectives = {{ first_token_ms = {{}} }}", "objectives", "Write objectives = {"),
    (
        f"{TOP}[objectives.first_token_ms]\np95 = 1999",
        "objectives.first_token_ms.p95",
        "p95 = 2000",
    ),
    (f"{TOP}tool_output = {{}}", "tool_output.bytes_max", "Write bytes_max = 16_384"),
    (tool_output("exempt = ['a', '*']"), "tool_output.exempt", 'Write exempt = ["read_exact*"]'),
    (tool_output("exempt = ['read_*', 'read_a*b']"), "tool_output.exempt", '= ["read_*"]'),
    (
        f"{TOP}prompt.tokens_max = 1000\ntool_output.bytes_max = 16_384",
        "tool_output.bytes_max",
        "Write bytes_max = 8000",
    ),
    (
        f"{TOP}prompt.tokens_max = 60\ntool_output.bytes_max = 1024",
        "tool_output.bytes_max",
        "Take `tool_output` out",
    ),
    (f'{TOP}accounts = ["*", "acme"]', "accounts", 'Write accounts = ["*"]'),
    (models("", "default = 'bigg'"), "models.default", 'Write default = "big"'),
    (models("", "default = 'zzzzzz'"), "models.default", 'Write default = "@cf/x/big"'),
    (models("", "default = 'auto'"), "models.default", "Name a model"),
    (models("class = { extract = 'smal' }"), "models.class.extract", 'Write extract = "small"'),
    (models("class = { extract = 'auto' }"), "models.class.extract", "Name a model"),
    (models("class = { default = 'small' }"), "models.class.default", 'default = "small"'),
    (rule("tools = 0", "extrct"), "models.rule[0].class", 'Write class = "extract"'),
    (rule(""), "models.rule[0].when", "Write when = {"),
    (rule("tools_min = 2, tools_max = 1"), "models.rule[0].when", "Write when = {"),
    (rule("tools = 0, tool = 'bash'"), "models.rule[0].when", "Write when = {"),
    (rule("tools = 2, tools_min = 1"), "models.rule[0].when", "Write when = {"),
    (rule("tools_min = 0"), "models.rule[0].when", "Write when = {"),
    (rule("model = 'bigg'"), "models.rule[0].when.model", 'Write model = "big"'),
    ("schema = 1\nname = 'default'\nobjectives.success = 0.9", "objectives", "that requests name"),
    (f"{TOP}output.tokens_max = 100_000\n{MODELS}", "output.tokens_max", "tokens_max = 50000"),
    (f"{TOP}prompt.tokens_max = 200_000\n{MODELS}", "prompt.tokens_max", "tokens_max = 50000"),
    (f"{TOP}accounts = ['beta']\n[models]\ndefault = 'private'", "models.default", "leave the"),
    (
        f"{TOP}accounts = ['beta', 'acme']\n[models]\ndefault = 'big'\nclass.a = 'private'",
        "models.class.a",
        "Name another model",
    ),
]


@pytest.mark.parametrize(("text", "key", "advice"), [*WRONG_KEYS, *WRONG_VALUES, *WITHOUT_EFFECT])
def test_a_wrong_contract_is_refused_with_its_key_and_advice(
    text: str, key: str, advice: str
) -> None:
    error = refusal(text)
    assert error.key == key
    assert advice in error.advice
    assert str(error).startswith(f"one.toml: {key}: ")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"{TOP}{table}", key)
        for table, key in [
            ("[tools]\ndefault = 'deny'\napprove = ['merge']", "tools.approve"),
            ("[tools]\ndefault = 'deny'\ndestination = []", "tools.destination"),
            ("[tools]\ndefault = 'deny'\napproval = { wait_seconds = 1 }", "tools.approval"),
            ("persist = { content = 'none' }", "persist"),
            ("[checkpoint]\nevery_turns = 20", "checkpoint"),
            ("[shadow]\nto = 'catalogue'", "shadow"),
            ("output = { tokens_max = 5, seed = 'by_prompt' }", "output.seed"),
            (f"{MODELS}rule = [{{ class = 'extract', when = {{ family = 'x' }} }}]",
             "models.rule[0].when.family"),
        ]
    ],
)  # fmt: skip
def test_what_is_yet_to_come_is_refused_as_not_available_yet(text: str, key: str) -> None:
    error = refusal(text)
    assert (error.key, error.problem) == (key, "is not available yet")
    assert "Take it out" in error.advice


def test_a_rule_behind_one_that_matches_the_same_is_refused() -> None:
    rules = [
        '{ class = "look", when = { images = true } }',
        '{ class = "extract", when = { tools_max = 3 } }',
        '{ class = "look", when = { tools = 0 } }',
    ]
    error = refusal(f"{TOP}{MODELS}rule = [{', '.join(rules)}]")
    assert error.key == "models.rule[2]"
    assert "models.rule[1] matches all" in error.problem
    rules.insert(1, rules.pop())
    check_texts({"one.toml": f"{TOP}{MODELS}rule = [{', '.join(rules)}]"}, CATALOGUE)


def test_a_rule_may_name_a_model_of_elsewhere_where_callers_are_overridden() -> None:
    text = rule("model = 'gpt-of-elsewhere'")
    assert refusal(text).key == "models.rule[0].when.model"
    overridden = text.replace("rule =", 'asked = "override"\nrule =')
    check_texts({"one.toml": overridden}, CATALOGUE)
    check_texts({"one.toml": rule("model = 'auto'")}, CATALOGUE)


@pytest.mark.parametrize("text", ["schema 1", "[", "a = 1\na = 2", f"a = {'[' * 5000}", "=", "\0"])
def test_what_is_not_toml_is_refused(text: str) -> None:
    error = refusal(text)
    assert "not TOML" in error.problem
    assert "key = value" in error.advice


def test_a_schema_that_is_nested_deep_is_refused() -> None:
    error = refusal(f"name = 'w'\nschema{'.a' * 2000} = 1")
    assert (error.key, error.problem) == ("schema", "is a form that this program cannot read")


def test_a_name_in_two_files_is_refused_with_both() -> None:
    with pytest.raises(ContractError, match=r"two\.toml: name: .* also in one\.toml"):
        check_texts({"one.toml": TOP, "two.toml": TOP}, CATALOGUE)


def test_a_set_has_its_contracts_by_name_and_no_contracts_are_no_set() -> None:
    found = compile_set(41, [(3, TOP), (1, TOP.replace("code-review", "default"))], CATALOGUE)
    assert found is not None
    assert found.number == 41
    assert {each.label for each in found.by_name.values()} == {"code-review@3", "default@1"}
    assert compile_set(41, [], CATALOGUE) is None
    with pytest.raises(ContractError):
        compile_set(41, [(1, models("", "default = 'gone'"))], CATALOGUE)


def test_a_folder_is_read_by_name_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.toml", "a.toml", ".hidden.toml", "notes.md"):
        (tmp_path / name).write_text(TOP)
    texts = read_folder(tmp_path, ContractsSettings())
    assert list(texts) == [str(tmp_path / "a.toml"), str(tmp_path / "b.toml")]
    assert set(texts.values()) == {TOP}


def test_a_folder_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="is not a folder"):
        read_folder(tmp_path / "none", ContractsSettings())
    with pytest.raises(ContractError, match="has no contract"):
        read_folder(tmp_path, ContractsSettings())
    (tmp_path / "a.toml").write_bytes(b"# fine\nname = '\xff'")
    with pytest.raises(ContractError, match=r"a\.toml, line 2: byte 15 is not UTF-8"):
        read_folder(tmp_path, ContractsSettings())
    (tmp_path / "a.toml").write_text("#" * 1025)
    with pytest.raises(ContractError, match="is larger than 1024 bytes"):
        read_folder(tmp_path, ContractsSettings(document_bytes_max=1024))
    (tmp_path / "b.toml").write_text(TOP)
    with pytest.raises(ContractError, match="set contracts_max under"):
        read_folder(tmp_path, ContractsSettings(contracts_max=1))
