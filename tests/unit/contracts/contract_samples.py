"""A catalogue, contracts and requests for tests of contracts."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from penstock.catalogue import Catalogue
from penstock.contracts.asked import Asked
from penstock.contracts.compiling import CompiledContract, ContractSet, compile_contract
from penstock.contracts.document import When
from penstock.contracts.reading import read_contract
from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.wire.apis.request_facts import RequestFacts

TOP = 'schema = 1\nname = "code-review"\n'
MODELS = '[models]\ndefault = "big"\nclass = { extract = "small", look = "eyes" }\n'


def a_model(name: str, *capabilities: Capability, **fields: Any) -> Model:
    return Model(
        id=ModelId(f"@cf/x/{name}"),
        family=fields.pop("family", Family.OPENAI),
        context_tokens=fields.pop("context_tokens", 100_000),
        recipe=Recipe(command=("x",)),
        capabilities=frozenset(capabilities),
        **fields,
    )


# `kimi-k2.5` and `gpt-oss-20b` are names that advice gives as examples.
BIG = a_model("big", *Capability, aliases=("big", "kimi-k2.5"))
SMALL = a_model("small", aliases=("small", "gpt-oss-20b"), context_tokens=8000)
EYES = a_model("eyes", Capability.VISION, aliases=("eyes",))
OTHER = a_model("other", *Capability, aliases=("other",))
PRIVATE = a_model("private", aliases=("private",), allowed_accounts=("acme",))
CATALOGUE = Catalogue([BIG, SMALL, EYES, OTHER, PRIVATE])

ACME = Account(AccountId("acme"), "Acme")
KEY = Key(KeyId("k1"), Role.RUNTIME, ACME, "ci-runner")


def compiled(text: str, version: int = 7, catalogue: Catalogue = CATALOGUE) -> CompiledContract:
    return compile_contract(read_contract(text), version, catalogue)


def contract_set(*texts: str, catalogue: Catalogue = CATALOGUE) -> ContractSet:
    return ContractSet(1, [compiled(text, catalogue=catalogue) for text in texts])


def facts(**fields: object) -> RequestFacts:
    return RequestFacts({name: Raw(msgspec.json.encode(value)) for name, value in fields.items()})


def asked(
    model: str = "big",
    task: str = "",
    workflow: str = "code-review",
    key: Key = KEY,
    api: str = "chat",
    **fields: object,
) -> Asked:
    return Asked(key=key, workflow=workflow, task=task, model=model, api=api, facts=facts(**fields))


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def function(name: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


APIS = ("chat", "messages", "responses", "run")
EFFORTS = ("low", "high")
TOOLS = ("fetch_page", "bash")


def whens() -> st.SearchStrategy[When]:
    """Conditions of few values, so that some hold for a generated request, and some cover others.

    Bounds and facts are small numbers for the same reason.
    """
    count = st.none() | st.integers(0, 3)
    tokens = st.none() | st.integers(0, 300)
    return st.builds(
        When,
        api=st.none() | st.sampled_from(APIS),
        stream=st.none() | st.booleans(),
        tools=count,
        tools_min=count,
        tools_max=count,
        tool=st.none() | st.sampled_from((*TOOLS, "fetch*", "*")),
        structured=st.none() | st.booleans(),
        images=st.none() | st.booleans(),
        opening_bytes_min=tokens,
        opening_bytes_max=tokens,
        output_tokens_min=tokens,
        output_tokens_max=tokens,
        reasoning_effort=st.none() | st.sampled_from(EFFORTS),
        key=st.none() | st.sampled_from(("k1", "ci-runner", "k2")),
        model=st.none() | st.sampled_from(("big", "small", "auto")),
    )


def askings() -> st.SearchStrategy[Asked]:
    """Requests with any mixture of the facts that rules look at."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "stream": st.booleans(),
        "tools": st.lists(st.sampled_from(TOOLS).map(function), max_size=3),
        "response_format": st.sampled_from(({"type": "json_object"}, {"type": "text"})),
        "messages": st.sampled_from(([user("hi")], [user([image])], [user("x" * 200)])),
        "max_tokens": st.integers(0, 300),
        "reasoning_effort": st.sampled_from(EFFORTS),
    }
    bodies: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional=optional)
    return st.builds(
        lambda api, model, body: asked(api=api, model=model, **body),
        st.sampled_from(APIS),
        st.sampled_from(("big", "small", "auto")),
        bodies,
    )
