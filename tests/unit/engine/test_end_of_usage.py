"""Where the usage of an event ends: the short ways to tell agree with the pattern."""

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.engine.event_stream import _NESTED_USAGE, _end_of_usage

_BEGIN = b'data: {"id":"x","choices":[]'

plain = st.text('a1:,"', max_size=6)
parts = st.lists(plain | plain.map(lambda text: "{" + text + "}"), max_size=5)
behind = st.text("{}a\n", max_size=6)


@given(parts=parts, behind=behind)
@example(parts=['"a":1,"b":', "{}"], behind="}\n\n")
@example(parts=["{}", "{}"], behind="}\n\n")
@example(parts=["{}"], behind='}},{"b":{}')
@example(parts=[], behind="{}}")
def test_usage_ends_where_the_pattern_ends(parts: list[str], behind: str) -> None:
    event = _BEGIN + b',"usage":{' + "".join([*parts, "}", behind]).encode()
    match = _NESTED_USAGE.match(event, len(_BEGIN))
    assert match is not None
    assert _end_of_usage(event, len(_BEGIN)) == match.end()
