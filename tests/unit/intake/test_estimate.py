"""What a request may use at most, and the caller's own cap on what it may cost."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CostCapped, InvalidRequest
from penstock.intake.estimate import Estimate, estimate, within_cap
from penstock.metering import usd
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.price import Price
from penstock.wire.apis.chat import read_chat
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.json_body import read_fields
from penstock.wire.prompt.media import Media

MODEL = Model(
    id=ModelId("@cf/x/y"),
    family=Family.OPENAI,
    context_tokens=10_000,
    recipe=Recipe(command=("x",)),
    default_output_tokens=500,
    image_tokens_max=1000,
)
PRICE = Price(600_000_000, 100_000_000, 3_000_000_000)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}


def chat(content: object = "x" * 300, **fields: object) -> PromptRequest:
    messages = [{"role": "user", "content": content}]
    body = json.dumps({"messages": messages, **fields}).encode()
    return read_chat(read_fields(body), frozenset())


def test_prompt_is_by_its_bytes_with_tools_and_output_by_what_was_asked() -> None:
    plain = estimate(chat(), MODEL, 3.0)
    assert 100 < plain.prompt_tokens < 130
    assert (plain.max_tokens, plain.choices) == (500, 1)
    tools = [{"type": "function", "function": {"name": "x" * 300}}]
    assert estimate(chat(tools=tools), MODEL, 3.0).prompt_tokens > plain.prompt_tokens + 100
    assert estimate(chat(max_tokens=7, n=3), MODEL, 3.0).output_tokens == 21
    assert estimate(chat(max_tokens=7, max_completion_tokens=9), MODEL, 3.0).max_tokens == 9
    assert estimate(chat(max_tokens=None), MODEL, 3.0).max_tokens == 500


def test_images_count_by_the_catalogue_and_not_by_their_bytes() -> None:
    one = estimate(chat([{"type": "text", "text": "see"}, IMAGE]), MODEL, 3.0)
    assert 1000 < one.prompt_tokens < 1060
    three = estimate(chat([IMAGE] * 3), MODEL, 3.0)
    assert 3000 < three.prompt_tokens < 3120


def test_nothing_is_estimated_beyond_the_context() -> None:
    wanted = estimate(chat("x" * 10**6, max_tokens=10**9), MODEL, 0.5)
    assert (wanted.prompt_tokens, wanted.max_tokens) == (10_000, 10_000)
    assert estimate(chat([IMAGE] * 50), MODEL, 3.0).prompt_tokens == 10_000


WANTED = Estimate(prompt_tokens=1000, max_tokens=500, choices=1)
# 1,000 at $0.60 and 500 at $3.00 a million.
COST = 600_000 + 1_500_000


def test_cap_that_pays_for_it_all_changes_nothing() -> None:
    for may_shorten in (True, False):
        assert within_cap(WANTED, PRICE, usd(COST), may_shorten=may_shorten) is WANTED


def test_answer_is_shortened_only_when_its_length_was_left_open() -> None:
    cap = usd(COST - 1)
    assert within_cap(WANTED, PRICE, cap, may_shorten=True).max_tokens == 499
    with pytest.raises(CostCapped, match=r"\$0\.002100000.*\$0\.002099999"):
        within_cap(WANTED, PRICE, cap, may_shorten=False)


def test_cap_that_does_not_pay_for_one_token_is_refused() -> None:
    cap = usd(600_000 + 2_999)
    with pytest.raises(CostCapped) as refused:
        within_cap(WANTED, PRICE, cap, may_shorten=True)
    assert refused.value.param == "x-penstock-max-cost-usd"
    assert within_cap(WANTED, PRICE, usd(603_000), may_shorten=True).max_tokens == 1


def test_what_is_free_passes_any_cap() -> None:
    assert within_cap(WANTED, Price(), "0", may_shorten=False) is WANTED


@pytest.mark.parametrize(
    "cap",
    [
        "", " ", "x", "-1", "-0.0001", "nan", "NaN", "sNaN", "inf", "-inf", "Infinity",
        "1000001", "1e7", "1e999999", "1e99999999999999999999", "0x10", "1,5", "$5", "5 USD",
        "1..2", "--1",
    ],
)  # fmt: skip
def test_cap_that_is_no_amount_of_dollars_is_refused(cap: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        within_cap(WANTED, PRICE, cap, may_shorten=True)
    assert refused.value.param == "x-penstock-max-cost-usd"


@pytest.mark.parametrize("cap", ["1", "1.0", "1e0", "+1", " 1 ", "1000000", "0.0021", "21E-4"])
def test_cap_may_be_written_as_numbers_are(cap: str) -> None:
    assert within_cap(WANTED, PRICE, cap, may_shorten=False) is WANTED


@pytest.mark.parametrize("cap", ["0", "-0", "0.0", "1e-999999", "0.0000000009"])
def test_cap_of_nothing_refuses_whatever_costs(cap: str) -> None:
    with pytest.raises(CostCapped):
        within_cap(WANTED, PRICE, cap, may_shorten=True)


@given(
    st.integers(0, 10**5), st.integers(1, 10**5), st.integers(1, 128), st.integers(0, 10**10),
    st.builds(Price, *[st.integers(0, 10**11)] * 3, st.integers(0, 20_000)),
)  # fmt: skip
def test_shortened_answer_is_the_longest_that_the_cap_pays_for(
    prompt: int, longest: int, choices: int, cap: int, price: Price
) -> None:
    wanted = Estimate(prompt, longest, choices)
    try:
        fitting = within_cap(wanted, price, usd(cap), may_shorten=True)
    except CostCapped:
        assert wanted.shortened(1).cost_nanousd(price) > cap
        return
    assert 1 <= fitting.max_tokens <= longest
    assert fitting.cost_nanousd(price) <= cap
    if fitting.max_tokens < longest:
        one_more = fitting.shortened(fitting.max_tokens + 1)
        assert one_more.cost_nanousd(price) > cap


def test_whatever_may_become_a_prompt_is_reserved_for() -> None:
    least = estimate(chat(), MODEL, 3.0).prompt_tokens
    video = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + "A" * 800}}
    for more in (
        chat(documents=[{"text": "x" * 400}]),
        chat(chat_template_kwargs={"note": "x" * 400}),
        chat([video]),
    ):
        assert estimate(more, MODEL, 3.0).prompt_tokens >= least + 100


@given(st.integers(0, 10**7), st.floats(0.5, 12))
def test_a_prompt_s_tokens_are_rounded_up(prompt_bytes: int, bytes_per_token: float) -> None:
    asked = PromptRequest(fields={}, messages=[], media=Media(), prompt_bytes=prompt_bytes)
    most = math.ceil(prompt_bytes / bytes_per_token)
    assert estimate(asked, MODEL, bytes_per_token).prompt_tokens == min(most, MODEL.context_tokens)
