"""Opens the source that a recipe names."""

from pathlib import Path

from penstock.fleet.weights.copied_source import CopiedSource
from penstock.fleet.weights.folder_files import FolderFiles
from penstock.fleet.weights.hub_source import HubSource
from penstock.fleet.weights.weight_files import WeightSource
from penstock.store.settings import StoreSettings

_HUB = "hf:"
_BUCKET = "s3://"


def open_source(source: str, settings: StoreSettings) -> WeightSource:
    """Return the source; the settings have the keys of buckets. Asks nobody yet."""
    if source.startswith(_HUB):
        return HubSource(source.removeprefix(_HUB))
    if source.startswith(_BUCKET):
        # Imported with the first bucket: the client takes 4 MB, and most hosts need none.
        from penstock.store.bucket_files import BucketFiles  # noqa: PLC0415 - see above

        return CopiedSource(BucketFiles(settings, source))
    return CopiedSource(FolderFiles(Path(source)))
