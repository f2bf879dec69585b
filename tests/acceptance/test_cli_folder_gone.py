"""`rm -rf .penstock` under a running `penstock up`: it says so, and everything ends at once."""

import shutil
from pathlib import Path

from tests.acceptance.cli_run import Up, pids_with, until

END_SECONDS = 20.0


def test_a_removed_state_folder_ends_the_run(tmp_path: Path) -> None:
    state = tmp_path / "state"
    up = Up(state, "--imitate", "--json")
    try:
        up.ready()
        shutil.rmtree(state, ignore_errors=True)
        assert up.process.wait(END_SECONDS) == 1
        said = "".join(up.err)
        assert "the state folder is gone; ending" in said
        assert said.splitlines()[-1] == f"error: The state folder {state} was removed."
        assert "Traceback" not in said
        until(lambda: not pids_with(state), END_SECONDS)
    finally:
        up.close()
