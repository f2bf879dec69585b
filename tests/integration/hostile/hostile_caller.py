"""Who fires at a gateway: a key and its account, and requests whose head is in order."""

from tests.integration.cells.gateway_cell import CHAT, prompt
from tests.integration.hostile import hostile_heads as heads
from tests.integration.hostile.hostile_json import key, obj, text
from tests.integration.hostile.hostile_shot import Shot

V1 = b"/v1/chat/completions"
HTTP = b"HTTP/1.1"
PLAIN_BODY = obj([(key("model"), text(CHAT)), (key("messages"), text(prompt()))])


class Caller:
    """One runtime key."""

    def __init__(self, account: str, secret: str) -> None:
        self.account = account
        self.secret = secret.encode()
        self.key_line = b"authorization: Bearer " + self.secret

    def path(self, tail: str) -> bytes:
        """A path of the Workers AI surface, in this caller's account."""
        return f"/client/v4/accounts/{self.account}/ai/{tail}".encode()

    def post(self, kind: str, target: bytes, body: bytes, *lines: bytes) -> Shot:
        length = b"content-length: %d" % len(body)
        head = heads.head(b"POST", target, HTTP, b"host: x", self.key_line, length, *lines)
        return Shot(kind, head + body)

    def get(self, kind: str, target: bytes, *lines: bytes) -> Shot:
        return Shot(kind, heads.head(b"GET", target, HTTP, b"host: x", self.key_line, *lines))
