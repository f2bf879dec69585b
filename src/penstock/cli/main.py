"""The entry point of `penstock`. It imports nothing at the top.

A gateway's workers are started by importing the main program again; typer and rich would cost each
of them 13 MB that it never uses.
"""


def main() -> None:
    """Run the command that the arguments name."""
    from penstock.cli.commands import app  # noqa: PLC0415 - see above

    app(prog_name="penstock")
