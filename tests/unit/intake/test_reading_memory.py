"""With a memory of earlier turns a request is read exactly as without, whatever its caller does."""

import random
import tracemalloc
from typing import Any, Final

import msgspec
import pytest

from penstock.catalogue import Catalogue
from penstock.clock import new_id
from penstock.errors import Error, InvalidRequest
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, PolicySettings
from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.records.request import RequestId
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock
from penstock.testing.sample_request import flat_fields
from penstock.wire.json_body import VALUES_MAX, read_fields
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.memory import LARGE_BYTES, PIECE_BYTES, BodyDigests, PromptMemory
from penstock.wire.prompt.reader import PromptReader

MODELS = [
    Model(
        id=ModelId(name),
        family=family,
        context_tokens=1000,
        recipe=Recipe(command=("x",)),
        capabilities=frozenset(capabilities),
    )
    for name, family, capabilities in (
        ("@cf/x/full", Family.OPENAI, tuple(Capability)),
        ("@cf/x/plain", Family.OPENAI, ()),
        ("@cf/x/vectors", Family.EMBEDDINGS, ()),
    )
]
FULL = MODELS[0]
KEYS = [
    Key(KeyId(name), Role.RUNTIME, Account(AccountId(name), name)) for name in ("acme", "other")
]
REQUEST = RequestId(new_id())
PAD: Final = "x" * LARGE_BYTES
PNG = "data:image/png;base64,iVBORw0KGgo="
STYLES = [(",", ":"), (", ", ": "), (" ,\n", " :\t")]
DEEP: list[Any] = []
for _ in range(80):
    DEEP = [DEEP]


class CountingMemory(PromptMemory):
    found = 0

    def find(self, digests: BodyDigests) -> KnownPrompt | None:
        known = super().find(digests)
        self.found += known is not None
        return known


class EagerMemory(CountingMemory):
    """Looks at every long body, as if its start had come before."""

    def digests(self, account: str, body: bytes) -> BodyDigests | None:
        return super().digests(account, body) or super().digests(account, body)


class NoMemory(PromptMemory):
    def digests(self, account: str, body: bytes) -> BodyDigests | None:
        return None


def reader_with(memory: PromptMemory) -> RequestReader:
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    catalogue = Catalogue(MODELS, default_model=FULL.id)
    prices = PriceBook(catalogue.models)
    made = RequestReader(catalogue, mirror, prices, IngressSettings().intake)
    made._prompts = PromptReader(memory)
    return made


def result(reader: RequestReader, body: bytes, key: Key = KEYS[0], path: bytes = b"") -> object:
    """All that is known of the request, or all that is said about what is wrong with it."""
    route = find_route(path or b"/v1/chat/completions")
    try:
        request = reader.read(REQUEST, route, CallerHeaders([]), key, body)
    except Error as wrong:
        return type(wrong), str(wrong), getattr(wrong, "param", None)
    told = flat_fields(request)
    told["body"] = [(name, bytes(value)) for name, value in request.prompt.body.items()]
    return told


class Conversation:
    """One that goes on in every way that we could think of, well-formed or not."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.style = chance.choice(STYLES)
        self.front: dict[str, Any] = {"model": FULL.id, "stream": True}
        self.after: dict[str, Any] = {"temperature": 1}
        roles = chance.choice([["system", "user"], ["user", "system"], ["developer"], ["user"] * 8])
        self.messages: list[Any] = [{"role": role, "content": self.text()} for role in roles]
        self.messages[chance.randrange(len(roles))]["content"] = self.text() + PAD
        if chance.random() < 0.3:
            self.front, self.after = self.after, self.front

    def text(self) -> str:
        return "".join(self.chance.choices('ab é]}[{",:\\\n', k=self.chance.randrange(30)))

    def message(self) -> Any:
        kind = self.chance.randrange(10)
        if kind == 0:
            image = {"type": "image_url", "image_url": {"url": PNG}}
            return {"role": "user", "content": [{"type": "text", "text": self.text()}, image]}
        if kind == 1:
            call = {"id": "1", "function": {"name": "f", "arguments": self.text()}}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        if kind == 2:
            return {"content": self.text(), "role": self.chance.choice(["tool", "system"])}
        role = self.chance.choice(["user", "assistant", "assistant", "tool"])
        return {"role": role, "content": self.text()}

    def go_on(self) -> None:
        chance, kind = self.chance, self.chance.randrange(12)
        if kind == 0:
            self.messages[chance.randrange(len(self.messages))] = self.message()
        elif kind == 1 and len(self.messages) > 1:
            self.messages.pop()
        elif kind in (2, 3):
            where = chance.choice([self.front, self.after])
            where["tools"] = [{"type": "function", "function": {"name": self.text()}}]
        elif kind == 4:
            self.style = chance.choice(STYLES)
        elif kind == 5:
            (self.front if "model" in self.front else self.after)["model"] = MODELS[1].id
        if kind != 6:
            self.messages += [self.message() for _ in range(chance.randrange(1, 4))]

    def body(self, messages: list[Any] | None = None) -> bytes:
        comma, colon = self.style
        said = self.messages if messages is None else messages
        texts = [
            *self.written(self.front),
            f'"messages"{colon}[{comma.join(dumps(message) for message in said)}]',
            *self.written(self.after),
        ]
        return ("{" + comma.join(texts) + "}").encode()

    def written(self, fields: dict[str, Any]) -> list[str]:
        return [f"{dumps(name)}{self.style[1]}{dumps(value)}" for name, value in fields.items()]

    def damaged(self) -> bytes:
        """What this turn might be if it were not well-formed, or not allowed."""
        chance, body = self.chance, self.body()
        url = {"role": "user", "content": [{"type": "image_url", "image_url": "http://10.0.0.1/"}]}
        turns = [url, 7, {}, DEEP, {"role": "user", "content": DEEP}, {"role": "user", "x": DEEP}]
        ends = [
            b',"messages":[]}', b',"messages":7}', b',"messages":[{"":0},{"role":"user"}]}',
            b',"model":"@cf/x/full"}', b',"tools":[{"name":"f"}]}', b"}}", b"} 7", b",}", b"",
            b',"stream":1}', b',"n":NaN}', b',"x":' + b"[" * 80 + b"]" * 80 + b"}",
        ]  # fmt: skip
        kind = chance.randrange(5)
        if kind == 0:
            return self.body([*self.messages, chance.choice(turns), *self.messages[-1:]])
        if kind == 1:
            return body[:-1] + chance.choice(ends)
        if kind == 2:
            return body[: chance.randrange(len(body) - 200, len(body))]
        if kind == 3:
            at = chance.randrange(len(body) - 200, len(body))
            return body[:at] + chance.choice([b"\xff", b"\xc3", b"\x00", b'"']) + body[at:]
        return b" " * chance.randrange(2) + body.replace(b'"messages"', b'"messages":0,"messages"')


def dumps(value: object) -> str:
    return msgspec.json.encode(value).decode()


@pytest.mark.parametrize("seed", range(10))
def test_every_turn_is_read_as_it_is_without_a_memory(seed: int) -> None:
    chance = random.Random(seed)
    memory = EagerMemory()
    reader, plain = reader_with(memory), reader_with(NoMemory())
    turns = 0
    for _ in range(200):
        conversation = Conversation(chance)
        for _ in range(chance.randrange(2, 6)):
            body = conversation.body()
            if chance.random() < 0.3:
                damaged = conversation.damaged()
                assert result(reader, damaged) == result(plain, damaged)
            key = KEYS[chance.random() < 0.1]
            assert result(reader, body, key) == result(plain, body, key)
            turns += 1
            conversation.go_on()
    assert memory.found > turns / 3


def messages(*contents: str) -> list[dict[str, Any]]:
    roles = ["system", *["user", "assistant"] * len(contents)]
    return [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]


def body_of(said: list[dict[str, Any]], **more: object) -> bytes:
    return msgspec.json.encode({"messages": said, "model": FULL.id, **more})


def test_an_agent_is_known_from_its_third_turn_on() -> None:
    memory = CountingMemory()
    reader = reader_with(memory)
    for turn in range(6):
        result(reader, body_of(messages("a", PAD, *["b", "c"] * turn)))
        assert memory.found == max(0, turn - 1)


def test_the_next_turn_is_known_and_so_is_the_same_one_again() -> None:
    memory = EagerMemory()
    reader = reader_with(memory)
    turn, longer = messages("a", PAD), messages("a", PAD, "b", "c")
    for said, found in ((turn, 0), (longer, 1), (longer, 2), (turn, 3)):
        result(reader, body_of(said))
        assert memory.found == found


def test_another_question_about_the_same_text_is_known() -> None:
    memory = EagerMemory()
    reader = reader_with(memory)
    for number in range(40):
        result(reader, body_of(messages(PAD, f"{number} and so on")))
        assert memory.found == number


@pytest.mark.parametrize("past", range(-2, 3))
def test_a_prompt_may_end_at_any_byte_of_a_piece(past: int) -> None:
    memory = EagerMemory()
    reader, plain = reader_with(memory), reader_with(NoMemory())
    short = body_of(messages("a", "")).index(b'],"model"')
    pad = "x" * (5 * PIECE_BYTES + past - short)
    first, second = body_of(messages("a", pad)), body_of(messages("a", pad, "b", "c"))
    assert first.index(b'],"model"') == 5 * PIECE_BYTES + past
    for body in (first, second):
        assert result(reader, body) == result(plain, body)
    assert memory.found == 1


@pytest.mark.parametrize("pad", [PAD, PAD * 16], ids=["not-counted", "counted"])
def test_values_are_counted_over_all_turns(pad: str) -> None:
    memory = EagerMemory()
    reader, plain = reader_with(memory), reader_with(NoMemory())
    many = VALUES_MAX // 2 + 1
    first: dict[str, Any] = {"role": "user", "content": pad, "x": [0] * many}
    said = [{"role": "system", "content": PAD}, first]
    refused = body_of([*said, {"role": "user", "content": PAD * 10, "x": [0] * many}])
    assert isinstance(result(reader, body_of(said)), dict)
    assert isinstance(result(reader, refused), tuple)
    assert result(reader, refused) == result(plain, refused)
    assert memory.found == 2


def test_no_body_is_kept_alive() -> None:
    reader = reader_with(EagerMemory())
    result(reader, body_of(messages("a", PAD)))
    tracemalloc.start()
    try:
        for number in range(20):
            assert isinstance(result(reader, body_of(messages(f"{number}", PAD))), dict)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * LARGE_BYTES


def test_another_account_knows_nothing_of_it() -> None:
    memory = EagerMemory()
    reader = reader_with(memory)
    result(reader, body_of(messages("a", PAD)))
    result(reader, body_of(messages("a", PAD)), KEYS[1])
    assert memory.found == 0


def test_a_refused_request_is_not_remembered() -> None:
    memory = EagerMemory()
    body = body_of(messages("a", PAD), stream_options={"include_usage": True})
    assert isinstance(result(reader_with(memory), body), tuple)
    assert len(memory) == 0


def test_a_request_whose_cost_cap_is_refused_is_not_remembered() -> None:
    memory = EagerMemory()
    capped = CallerHeaders([(b"x-penstock-max-cost-usd", b"much")])
    body = body_of(messages("a", PAD), max_tokens=10)
    with pytest.raises(InvalidRequest):
        reader_with(memory).read(
            REQUEST, find_route(b"/v1/chat/completions"), capped, KEYS[0], body
        )
    assert len(memory) == 0


def test_other_apis_do_not_take_part() -> None:
    memory = EagerMemory()
    reader = reader_with(memory)
    body = body_of(messages("a", PAD)[1:], max_tokens=5)
    for _ in range(2):
        assert isinstance(result(reader, body, path=b"/v1/messages"), dict)
    assert (len(memory), memory.found) == (0, 0)


def test_messages_that_were_refused_are_not_learned() -> None:
    memory = EagerMemory()
    reader = reader_with(memory)
    url = [{"type": "image_url", "image_url": "http://10.0.0.1/"}]
    said: list[Any] = [{"role": "system", "content": PAD}, {"role": "user", "content": url}]
    body = msgspec.json.encode({"messages": said, "text": "a"})
    path = b"/client/v4/accounts/acme/ai/run/"
    for name in (b"@cf/x/vectors", b"@cf/x/full", b"@cf/x/full"):
        assert isinstance(result(reader, body, path=path + name), tuple)
    assert len(memory) == 0


def test_an_item_of_a_list_is_read_by_its_own_fields() -> None:
    memory = EagerMemory()
    reader = reader_with(memory)
    body = body_of(messages("a", PAD))
    result(reader, body)
    route, headers = find_route(b"/v1/chat/completions"), CallerHeaders([])
    asked = reader.open(route, headers, KEYS[0], body)
    assert memory.found == 1
    item = read_fields(body_of(messages("x", "y", "z")))
    own = asked.with_fields(item)
    request = reader.read_prompt(REQUEST, headers, own)
    assert request.prompt.body is item
    assert len(request.prompt.chain.links) == 4


def test_messages_on_ai_run_are_known_too() -> None:
    memory = EagerMemory()
    reader, plain = reader_with(memory), reader_with(NoMemory())
    path = b"/client/v4/accounts/acme/ai/run/@cf/x/full"
    for said in (messages("a", PAD), messages("a", PAD, "b", "c")):
        body = msgspec.json.encode({"messages": said, "max_tokens": 5})
        assert result(reader, body, path=path) == result(plain, body, path=path)
    assert memory.found == 1
