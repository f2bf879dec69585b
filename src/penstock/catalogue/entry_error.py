"""The catalogue's only error."""

from penstock.records.file_fault import FileFault


class CatalogueError(FileFault):
    """An entry of the catalogue is wrong."""
