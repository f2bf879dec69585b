"""Counts of the media in a prompt."""


class Images:
    """The number and bytes of the images in one message, and the number of its parts."""

    def __init__(self, count: int = 0, bytes: int = 0) -> None:
        self.count = count
        self.bytes = bytes
        self.parts = 0


class Media:
    """The images in all messages together, and in each message with images, by its index."""

    def __init__(self) -> None:
        self.images = 0
        self.image_bytes = 0
        self.by_message: dict[int, Images] = {}

    def add(self, index: int, images: Images) -> None:
        """Add the images of one message."""
        self.by_message[index] = images
        self.images += images.count
        self.image_bytes += images.bytes
