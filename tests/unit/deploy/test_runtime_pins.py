"""pip takes the pinned versions of the container image as they stand."""

from importlib.metadata import requires

from deploy.container.build import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def test_pins_have_the_extras_that_others_ask_for() -> None:
    """With hashes, pip refuses `httpx2[http2]` of a dependency where only `httpx2` is pinned."""
    lines = (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
    pinned = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
    extras = {canonicalize_name(each.name): each.extras for each in pinned}
    asked = [
        (each.name, wanted)
        for each in pinned
        for wanted in map(Requirement, requires(each.name) or ())
        if wanted.extras and (wanted.marker is None or wanted.marker.evaluate({"extra": ""}))
    ]
    assert ("lightkube", "httpx2") in [(name, wanted.name) for name, wanted in asked]
    for name, wanted in asked:
        assert wanted.extras <= extras[canonicalize_name(wanted.name)], f"{wanted} of {name}"
