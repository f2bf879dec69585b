"""The contracts that come with the package, to start from, and their cases."""

from pathlib import Path

from penstock.errors import NotFound

FOLDER = Path(__file__).with_name("examples")


def example_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def example_text(name: str, *, is_cases: bool = False) -> str:
    """Return the file of an example, or that of its cases."""
    if name not in example_names():
        raise NotFound(f"There is no example {name}: there are {', '.join(example_names())}.")
    folder = FOLDER / "cases" if is_cases else FOLDER
    return (folder / f"{name}.toml").read_text()
