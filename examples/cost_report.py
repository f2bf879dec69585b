"""Who spent what: a table for each account, workflow, model and session, and a CSV file if wanted.

All figures come from `GET /v1/usage`. A runtime key sees its own account, an operator key all.
"""

import csv
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

TITLES = ("requests", "prompt", "hits", "output", "cost", "saved", "share")
LABELS = ["account", "workflow", "model", "session"]
TOKENS = ("prompt_tokens", "cached_tokens", "output_tokens")
IN_FILE = ("requests", *TOKENS, "hit_ratio", "cost_usd", "saved_usd")
ROWS_ASKED, ROWS_SHOWN = 10_000, 20

console = Console(highlight=False, markup=False)

Row = dict[str, Any]


def ask(http: httpx.Client, label: str, period: dict[str, str]) -> list[Row]:
    """One row for each value of the label, the dearest first."""
    answer = http.get("/v1/usage", params={**period, "group_by": label})
    if answer.is_error:
        sys.exit(answer.json()["error"]["message"])
    if answer.json()["has_more"]:
        console.print(f"Only the dearest {ROWS_ASKED:,} by {label}: ask for a shorter period.")
    rows: list[Row] = answer.json()["rows"]
    return rows


def table(label: str, rows: list[Row]) -> Table:
    """The dearest rows; the sums in the title are of all of them."""
    total = sum(Decimal(row["cost_usd"]) for row in rows)
    saved = sum(Decimal(row["saved_usd"]) for row in rows)
    title = f"By {label}: ${total:.6f} spent, ${saved:.6f} saved by caching"
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    shown.add_column(label, overflow="fold")
    for name in TITLES:
        shown.add_column(name, justify="right")
    for row in rows[:ROWS_SHOWN]:
        cost, hits = Decimal(row["cost_usd"]), row["hit_ratio"]
        shown.add_row(
            row["labels"][label] or "(none)",
            f"{row['requests']:,}",
            f"{row['prompt_tokens']:,}",
            # Where no engine has told, nothing is known: that is not 0.
            "?" if hits is None else f"{hits:.0%}",
            f"{row['output_tokens']:,}",
            f"${cost:.6f}",
            f"${Decimal(row['saved_usd']):.6f}",
            f"{cost / total if total else 0:.0%}",
        )
    return shown


def write(file: Path, rows: dict[str, list[Row]]) -> None:
    """Every row of every table, each with the label that it is by."""
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("by", "value", *IN_FILE))
        for label, its_rows in rows.items():
            for row in its_rows:
                writer.writerow((label, row["labels"][label], *(row[name] for name in IN_FILE)))


def main(
    *,
    key: Annotated[str, typer.Option(envvar="KEY")],
    url: Annotated[str, typer.Option(envvar="URL")] = "http://127.0.0.1:8787",
    since: Annotated[str | None, typer.Option(help="A date or time; 24 hours ago.")] = None,
    until: Annotated[str | None, typer.Option(help="A date or time; now.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="A label; may be repeated.")] = None,
    to_csv: Annotated[Path | None, typer.Option("--csv", help="Write this file too.")] = None,
) -> None:
    """Show who spent what, and what caching saved."""
    asked = {"since": since, "until": until, "limit": str(ROWS_ASKED)}
    period = {name: value for name, value in asked.items() if value is not None}
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30) as http:
        rows = {label: ask(http, label, period) for label in by or LABELS}
    for label, its_rows in rows.items():
        console.print(table(label, its_rows))
    if to_csv is not None:
        write(to_csv, rows)


if __name__ == "__main__":
    typer.run(main)
