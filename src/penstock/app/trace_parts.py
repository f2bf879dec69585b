"""Builds what traces a process's requests, and posts the traces to the collector."""

import asyncio
from typing import Final, NamedTuple

from penstock.app.this_process import host_name, installed_version
from penstock.clock import Clock
from penstock.config import Config
from penstock.outbound import Caller, CallFailed, CallLimits, Guard, OutboundCall
from penstock.telemetry import span_names as names
from penstock.telemetry.otlp import SpanWriter
from penstock.telemetry.settings import TelemetrySettings
from penstock.telemetry.trace_export import TraceExport
from penstock.telemetry.traces import Traces

# The operator sets the collector's address: it may be in any network.
_ANYWHERE: Final = ("0.0.0.0/0", "::/0")
_ANSWER_BYTES_MAX: Final = 64 * 1024


class TraceParts(NamedTuple):
    """The traces of a process, and their way to the collector."""

    traces: Traces
    export: TraceExport

    @classmethod
    def build(cls, config: Config, clock: Clock, kind: str, id: str) -> "TraceParts | None":
        """Return the parts of a process of this kind; None if nothing is traced."""
        settings = config.telemetry
        if not settings.traces_url:
            return None
        version = installed_version()
        resource = {
            names.SERVICE_NAME: f"penstock-{kind}",
            names.SERVICE_VERSION: version,
            names.SERVICE_INSTANCE_ID: id,
            names.HOST_NAME: host_name(config),
        }
        traces = Traces(settings, clock)
        writer = SpanWriter(resource, version)
        return cls(traces, TraceExport(traces, writer, Collector(settings).post, settings))


class Collector:
    """Posts to the collector at `telemetry.traces_url`."""

    def __init__(self, settings: TelemetrySettings) -> None:
        self._url = settings.traces_url
        self._seconds = settings.traces_timeout_seconds
        self._guard = Guard(_ANYWHERE)
        self._caller = Caller(
            CallLimits(
                ca_file="",
                connect_seconds=self._seconds,
                first_byte_seconds=self._seconds,
                body_bytes_max=_ANSWER_BYTES_MAX,
                lookups_at_once_max=1,
                lookups_per_account_max=1,
            )
        )

    async def post(self, body: bytes) -> str:
        """Post one body; return what is wrong, or "" if it was taken."""
        call = OutboundCall(
            account="",
            url=self._url,
            guard=self._guard,
            headers=(("content-type", "application/json"),),
            body=body,
        )
        try:
            async with asyncio.timeout(self._seconds), self._caller.open(call) as answer:
                return "" if 200 <= answer.status < 300 else f"status {answer.status}"
        except CallFailed as failed:
            return str(failed)
        except TimeoutError:
            return "no answer in time"
