"""What contracts cost is compared with a package without them, and held to limits."""

from pathlib import Path

import pytest

from callgrind import Profile
from contract_costs import Round, above, medians
from counted_worker import Count, added
from without_contracts import copy_checkout, left_of_contracts, take_out

ROUND = Round(small=1100, added=100, named=1000, labelled=1030, chunk=100, chunk_tools=102)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    copy_checkout(root)
    take_out(root)
    return root


def test_the_patch_takes_all_that_contracts_add_out_of_the_path(bare: Path) -> None:
    assert left_of_contracts(bare) == []


def test_work_for_contracts_that_the_patch_does_not_take_out_is_named(bare: Path) -> None:
    module = bare / "src/penstock/serving/retry_budget.py"
    modules = bare / "deploy/native/modules.txt"
    modules.write_text(modules.read_text() + "serving/retry_budget.py\n")
    work = "\n\ndef note(request: InferenceRequest) -> bool:\n    return request.contract is None\n"
    module.write_text(module.read_text() + work)
    assert left_of_contracts(bare) == ["serving/retry_budget.py: note has contract"]


def counted(own: dict[str, int], calls: dict[str, int]) -> Count:
    profile = Profile()
    profile.own.update(own)
    profile.calls.update(calls)
    return Count(profile, requests=10, events=0)


def test_our_functions_count_by_their_cost_and_others_by_their_calls() -> None:
    free = {"free": 40}
    with_tests = counted({"CPyDef_open": 300, "free": 4500, "new": 100}, {**free, "new": 10})
    without = counted({"CPyDef_open": 200, "free": 3500}, free)
    # Ten for our own, ten for the object that the other does not make, and no free more.
    assert added(with_tests, without) == 20


def test_what_the_layout_of_memory_decides_is_nobodys_cost() -> None:
    with_tests = counted({"search": 700, "_int_malloc": 900}, {"search": 70, "_int_malloc": 90})
    without = counted({"search": 200}, {"search": 20})
    assert added(with_tests, without) == 50


def test_figures_are_medians_of_their_rounds() -> None:
    rounds = [ROUND, Round(1400, 400, 1000, 1090, 100, 109), ROUND]
    assert medians(rounds) == {
        "none_instructions_added": 100,
        "labels_only_instructions_ratio": 1.03,
        "tools_chunk_instructions_ratio": 1.02,
    }


def test_a_figure_above_its_limit_is_named() -> None:
    figures = medians([ROUND])
    assert above(figures) == []
    assert above({**figures, "none_instructions_added": 301}) == [
        "none_instructions_added: 301 is above 300"
    ]
