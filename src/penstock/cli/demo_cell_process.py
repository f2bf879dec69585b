"""Runs the demo's `penstock up`, which ends with the demo, even if that is killed.

`python -m penstock.cli.demo_cell_process PARENT ARGUMENTS…`
"""

import sys

from penstock.cli.commands import app
from penstock.cli.parent_watch import end_with_parent


def main() -> None:
    end_with_parent(int(sys.argv.pop(1)))
    app()


if __name__ == "__main__":
    main()
