"""The media that a prompt carries, as they are counted; and an address of one, as it is written."""

import msgspec


class Images(msgspec.Struct):
    """The images in one message, and how many of its bytes they are."""

    count: int = 0
    bytes: int = 0


class Media(msgspec.Struct):
    """The images in all messages together, and those of each that has some, by its index."""

    images: int = 0
    image_bytes: int = 0
    by_message: dict[int, Images] = {}

    def add(self, index: int, images: Images) -> None:
        """Those of one message."""
        self.by_message[index] = images
        self.images += images.count
        self.image_bytes += images.bytes


class MediaUrl(msgspec.Struct):
    """An address inside an object."""

    url: str
