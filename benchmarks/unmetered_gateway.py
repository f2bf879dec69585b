"""The gateway without metering, to be measured beside the real one: what does the journal cost?

Everything else is as in `penstock gateway`; only the meters are replaced, by ones that count
nothing. Started by penstock_candidate.py as a script of its own.
"""

from penstock.app.gateway_worker import gateway
from penstock.config import export, load
from penstock.ingress.server import make_run_folder, remove_run_folder, run_gateway
from penstock.records.request import InferenceRequest, RequestEnd
from penstock.records.tally import Tally
from penstock.telemetry import log


class NullMeters:
    """Opens the same meter for everybody."""

    def __init__(self) -> None:
        self._meter = Tally()

    def open(self, request: InferenceRequest, end: RequestEnd, limits: tuple[int, ...]) -> Tally:
        del request, end, limits
        return self._meter


def worker() -> object:
    """What uvicorn calls in the worker."""
    return gateway(NullMeters())


def main() -> None:
    config = load().config
    log.set_up_service(config.telemetry)
    folder = make_run_folder()
    export({"ingress.run_folder": str(folder)})
    try:
        run_gateway("unmetered_gateway:worker", config.ingress, folder)
    finally:
        remove_run_folder(folder)


if __name__ == "__main__":
    main()
