"""Changes a request after its caller is known and before its prompt is read.

No rule changes a request today. Contracts (another model, fewer tools, a lower `max_tokens`) and
stored state (earlier messages in front) belong here.
"""

from penstock.intake.opened_request import OpenedRequest


def rewrite(opened: OpenedRequest) -> OpenedRequest:
    """Return the request to be served.

    Change a body by `OpenedRequest.with_fields`, which drops what was learned of the caller's body.
    """
    return opened
