"""A file of a source of weights, as a bucket, a folder or Hugging Face lists it."""

import msgspec


class SourceFile(msgspec.Struct, frozen=True):
    """A file, by its name below the source."""

    name: str
    size: int
    # Differs when the file was written again; "" where the source does not know.
    version: str = ""
