"""The version of the running package."""

from importlib.metadata import PackageNotFoundError, version

from penstock import DISTRIBUTION


def process_version() -> str:
    """Return the installed version; "unknown" where the package runs without being installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
