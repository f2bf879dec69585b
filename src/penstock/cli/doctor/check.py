"""The result of one check of the doctor."""

from enum import StrEnum

import msgspec


class CheckVerdict(StrEnum):
    """`warn` works, but less well than it should; `fail` does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True):
    """One result. `advice` is what to do; empty if there is nothing to do."""

    name: str
    verdict: CheckVerdict
    finding: str
    advice: str = ""


def ok(name: str, finding: str) -> Check:
    return Check(name, CheckVerdict.OK, finding)


def warn(name: str, finding: str, advice: str) -> Check:
    return Check(name, CheckVerdict.WARN, finding, advice)


def fail(name: str, finding: str, advice: str) -> Check:
    return Check(name, CheckVerdict.FAIL, finding, advice)
