"""A key, a model and a body for tests of reading."""

from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.model import Capability, Family, Model, ModelId, Recipe

ACME = Account(AccountId("acme"), "Acme")
KEY = Key(KeyId("k1"), Role.RUNTIME, ACME)
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


def model(name: str, family: Family, *capabilities: Capability) -> Model:
    return Model(
        id=ModelId(name),
        family=family,
        context_tokens=1000,
        recipe=Recipe(command=("x",)),
        capabilities=frozenset(capabilities),
    )


ALL = tuple(Capability)
FULL = model("@cf/x/full", Family.OPENAI, *ALL)
