"""A line for COPY holds together, whatever a caller's labels are."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.engine_line import make_request

from penstock.metering.ledger_line import OPENING_COLUMNS, opening
from penstock.records.request import RequestEnd

# What COPY reads as something else than a letter, and what UTF-8 has no bytes for.
_UNUSUAL = st.sampled_from(["\\", "\t", "\n", "\r", "\0", "\u2028", "\ud800", "é", "\x7f", " "])
labels = st.lists(st.characters() | _UNUSUAL, max_size=8).map("".join)


def read_back(field: bytes) -> str:
    """As COPY reads it."""
    text, escapes = field.decode(), {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    parts = iter(text)
    return "".join([escapes[next(parts)] if char == "\\" else char for char in parts])


@given(labels, labels, labels)
def test_labels_are_read_back_as_they_were(session: str, workflow: str, caller: str) -> None:
    request = make_request(session=session, workflow=workflow, caller_request_id=caller)
    line = opening(request, RequestEnd(replica="r1"), 5, (1, 2))
    assert b"\n" not in line
    *fields, last = line.split(b"\t")
    assert len(fields) == len(OPENING_COLUMNS)
    assert last == b""
    for name, label in (("session", session), ("workflow", workflow), ("caller_request", caller)):
        kept = label.replace("\0", "").encode("utf-8", "replace").decode()
        assert read_back(fields[OPENING_COLUMNS.index(name)]) == kept
