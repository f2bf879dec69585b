"""One folder of journals, one cell."""

from pathlib import Path

import pytest

from penstock.metering.journal_folder import ForeignJournals, claim_folder


def test_folder_is_the_cells_that_came_first(tmp_path: Path) -> None:
    claim_folder(tmp_path, "ours")
    claim_folder(tmp_path, "ours")
    with pytest.raises(ForeignJournals, match=r"metering\.journal_folder"):
        claim_folder(tmp_path, "theirs")


def test_mark_that_a_kill_left_empty_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "cell").touch()
    claim_folder(tmp_path, "ours")
    with pytest.raises(ForeignJournals):
        claim_folder(tmp_path, "theirs")
