"""Renders templates: everything that is inserted is text, never markup."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from penstock.console import chart_tables, charts, formats
from penstock.console.screens import figures
from penstock.console.texts import printable, text


def whole(value: object) -> Markup:
    """Return a text of ours, escaped and not cut: it may name what callers wrote."""
    return escape(printable(str(value)))


def exact(value: object) -> Markup:
    """Return what a link or a form must send back as it is: escaped, and nothing taken away."""
    return escape(str(value))


def prose(value: object) -> Markup:
    """Return a sentence of ours, whole; what stands between backticks in it is code."""
    pieces = str(whole(value)).split("`")
    if len(pieces) % 2 == 0:
        return whole(value)
    return Markup("").join(
        Markup(f"<code>{piece}</code>" if number % 2 else piece)  # noqa: S704 - escaped above
        for number, piece in enumerate(pieces)
    )


def moment(time: datetime | float, form: str = "%Y-%m-%d %H:%M:%S") -> Markup:
    """Return a time in UTC; the script adds the reader's own to its title."""
    at = datetime.fromtimestamp(time, UTC) if isinstance(time, int | float) else time
    at = at.astimezone(UTC)
    shown = f'<time datetime="{at.isoformat()}">{at.strftime(form)}</time>'
    return Markup(shown)  # noqa: S704 - a time has nothing to escape, and templates give the form


def age(seconds: float) -> str:
    """Return how long ago something was, in the largest two units."""
    if seconds < 60:
        return f"{max(0, seconds):.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    if seconds < 2 * 86_400:
        return f"{seconds // 3600:.0f} h"
    return f"{seconds // 86_400:.0f} d"


def static_names() -> Mapping[str, str]:
    """Return the files of `static` by their name in pages, which has a digest of the content."""
    found = {}
    for folder in ("", "vendor"):
        for file in (files("penstock.console") / "static" / folder).iterdir():
            if file.name.endswith((".css", ".js", ".svg")):
                digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
                stem, _, ending = file.name.rpartition(".")
                place = f"{folder}/{file.name}" if folder else file.name
                found[f"{stem}.{digest}.{ending}"] = place
    return found


class Templates:
    """The templates, and the names of static files that they link."""

    def __init__(self) -> None:
        self.statics = static_names()
        by_place = {place: name for name, place in self.statics.items()}
        self._environment = Environment(
            loader=PackageLoader("penstock.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_finalized,
        )
        self._environment.globals |= {
            "static": lambda place: f"/console/static/{by_place[place]}",
            "charts": charts,
            "chart_tables": chart_tables,
            "short": formats.short,
            "dollars": figures.dollars,
            "percent": figures.percent,
            "milliseconds": figures.milliseconds,
            "fact": figures.fact,
            "moment": moment,
            "age": age,
        }
        self._environment.filters |= {"whole": whole, "exact": exact, "prose": prose}

    def render(self, name: str, context: Mapping[str, Any]) -> str:
        return self._environment.get_template(name).render(context)


def _finalized(value: object) -> object:
    """Turn every inserted text into one that is cut and has no marks that turn it round."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return text(value)
    return figures.UNKNOWN if value is None else value
