"""The demo's `penstock up`: it ends when the demo does, however that ended.

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
