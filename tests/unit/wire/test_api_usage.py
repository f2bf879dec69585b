"""What answers of the other APIs say of their usage, in the ledger's terms."""

import msgspec
import pytest

from penstock.records.request import Api
from penstock.records.usage import Usage
from penstock.wire.engine_usage import usage_of_answer


@pytest.mark.parametrize(
    ("api", "usage", "counts"),
    [
        (Api.RESPONSES, '{"input_tokens":9,"output_tokens":2}', Usage(9, 2)),
        (
            Api.RESPONSES,
            '{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}',
            Usage(9, 2, 4),
        ),
        # It is a part of the prompt, and nowhere more than all of it.
        (
            Api.RESPONSES,
            '{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":40}}',
            Usage(9, 2, 9),
        ),
        (Api.MESSAGES, '{"input_tokens":9,"output_tokens":2}', Usage(9, 2)),
        (
            Api.MESSAGES,
            '{"input_tokens":9,"output_tokens":2,"cache_read_input_tokens":4,'
            '"cache_creation_input_tokens":3}',
            Usage(16, 2, 4),
        ),
        (
            Api.MESSAGES,
            '{"input_tokens":9,"output_tokens":2,"cache_read_input_tokens":0}',
            Usage(9, 2, 0),
        ),
        (Api.RESPONSES, "null", None),
        (Api.MESSAGES, "null", None),
    ],
)
def test_counts_are_the_ledgers(api: Api, usage: str, counts: Usage | None) -> None:
    assert usage_of_answer(api, f'{{"id":"x","usage":{usage}}}'.encode()) == counts
    assert usage_of_answer(api, b'{"id":"x"}') is None


@pytest.mark.parametrize("api", [Api.RESPONSES, Api.MESSAGES])
@pytest.mark.parametrize("answer", [b"[]", b"{", b'{"usage":5}', b'{"usage":{"input_tokens":-1}}'])
def test_nonsense_is_no_answer(api: Api, answer: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        usage_of_answer(api, answer)
