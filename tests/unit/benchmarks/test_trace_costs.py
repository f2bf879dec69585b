"""What traces cost is compared with a package without them."""

from pathlib import Path

from trace_costs import PATCH
from without_contracts import copy_checkout, take_out

# Where requests run that are not traced.
_ON_THE_PATH = (
    "ingress/inference/inference_endpoint.py", "ingress/inference/answer_writers.py",
    "ingress/inference/request_accounting.py", "serving/request_path.py", "engine/replica.py",
)  # fmt: skip


def test_the_patch_takes_the_tests_for_traces_out_of_the_path(tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    package = tmp_path / "src" / "penstock"
    before = {name: (package / name).read_text() for name in _ON_THE_PATH}
    take_out(tmp_path, PATCH)
    for name, text in before.items():
        left = (package / name).read_text()
        assert left != text, name
        for test in ("trace is not None", "traced is not None", "traceparent is not None"):
            assert test not in left, (name, test)
