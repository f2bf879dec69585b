"""Provider of engines as processes of this host, each under a supervisor that outlives the keeper.

A restarted keeper finds them by their state files: pid and start time must both match, otherwise
the pid was reused. It never signals a process that it has not identified as its own.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from penstock.catalogue import LaunchValues, fill
from penstock.clock import Clock
from penstock.errors import NoReplica
from penstock.fleet.engine_keys import EngineKeys
from penstock.fleet.intent import Phase, Want
from penstock.fleet.processes import (
    boot_id,
    group_is_ours,
    group_listens_on,
    is_running,
    signal_group,
    signal_process,
)
from penstock.fleet.providers import SeenProcess
from penstock.fleet.replica_files import ReplicaFile, StateFolder
from penstock.fleet.settings import FleetSettings
from penstock.fleet.weights.weight_folder import weights_path
from penstock.records.replica import ReplicaId, ReplicaPart
from penstock.telemetry.log_file import open_log

NAME = "process"
# The only GPUs that CUDA shows to the engine.
_VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_SUPERVISOR_START_SECONDS_MAX = 30.0
# How much longer than the grace period a supervisor may take before it is killed as stuck.
_STUCK_SECONDS = 10.0


class ProcessProvider:
    """Starts, finds and ends engines on this host."""

    def __init__(
        self,
        settings: FleetSettings,
        folder: StateFolder,
        keys: EngineKeys,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._keys = keys
        self._clock = clock
        self._next_port = settings.port_first
        self._told_at: dict[ReplicaId, float] = {}
        self._listening: set[ReplicaId] = set()

    async def observe(self) -> tuple[SeenProcess, ...]:
        return await asyncio.to_thread(self._look)

    async def start(self, replica: ReplicaId, want: Want, gpus: tuple[str, ...] = ()) -> None:
        await asyncio.to_thread(self._begin, replica, want, gpus)

    async def stop(self, replica: ReplicaId) -> None:
        await asyncio.to_thread(self._end, replica)

    def _look(self) -> tuple[SeenProcess, ...]:
        boot = boot_id()
        files = [file for file in self._folder.read_all() if file.provider == NAME]
        present = {file.id for file in files}
        self._told_at = {id_: at for id_, at in self._told_at.items() if id_ in present}
        self._listening &= present
        return tuple(self._seen(file, boot) for file in files)

    def _seen(self, file: ReplicaFile, boot: str) -> SeenProcess:
        phase, detail = Phase.ENDED, ""
        if file.boot != boot:
            detail = "the host was restarted" if file.boot else "it was never started"
        elif file.exit_code is not None:
            detail = _exit_detail(file)
            _reap(file.supervisor_pid)
        elif is_running(file.supervisor_pid, file.supervisor_started):
            phase = Phase.ALIVE
        elif self._is_engine_left(file):
            phase = Phase.ORPHANED
        else:
            detail = "its processes are gone"
        is_reachable = phase is not Phase.ENDED and self._is_listening(file)
        return SeenProcess(
            id=file.id,
            want=file.want,
            model=file.model,
            generation=file.generation,
            url=file.url,
            phase=phase,
            detail=detail,
            is_reachable=is_reachable,
            gpus=file.gpus,
            engine_key=file.engine_key,
            leader=file.leader,
            master_port=file.master_port,
        )

    def _is_listening(self, file: ReplicaFile) -> bool:
        """Return whether our engine listens on its port. Once it does, no other process can."""
        if file.id not in self._listening and group_listens_on(file.engine_pid, file.port):
            self._listening.add(file.id)
        return file.id in self._listening

    def _begin(self, replica: ReplicaId, want: Want, gpus: tuple[str, ...]) -> None:
        if self._folder.read(replica) is not None:
            return
        settings = self._settings
        is_awaited = want.part.nodes > 1 and not want.part.leader
        port, *others = self._free_ports(2 if is_awaited else 1)
        recipe = want.recipe
        assert recipe is not None, "a launched want has its recipe"
        key = self._keys.new_key(recipe)
        part = self._part(want, others)
        values = LaunchValues(
            port=port,
            address=settings.replica_address,
            engine_home=settings.engine_home,
            gpus=gpus,
            engine_key=key,
            weights=weights_path(settings, recipe),
            part=part,
        )
        argv, environment = fill(recipe, values)
        if gpus:
            environment[_VISIBLE_GPUS] = ",".join(gpus)
        path = self._folder.write(
            ReplicaFile(
                id=replica,
                provider=NAME,
                want=want.name,
                model=want.model,
                url=f"http://{settings.replica_address}:{port}",
                port=port,
                argv=tuple(argv),
                environment=environment,
                gpus=gpus,
                engine_key=key,
                leader=part.leader,
                master_port=0 if part.leader else part.master_port,
                alive_file=str(self._folder.alive_file),
                orphan_seconds=settings.orphan_seconds,
                stop_grace_seconds=settings.stop_grace_seconds,
                log_bytes_max=settings.engine_log_bytes_max,
            )
        )
        _leave_supervisor(path)

    def _part(self, want: Want, ports: list[int]) -> ReplicaPart:
        """Return which part the engine is; a port is for those that wait for it."""
        if not ports:
            return want.part
        address = self._settings.replica_address
        return replace(want.part, master_address=address, master_port=ports[0])

    def _end(self, replica: ReplicaId) -> None:
        file = self._folder.read(replica)
        if file is None or file.boot != boot_id():
            return
        is_first_time = replica not in self._told_at
        told_at = self._told_at.setdefault(replica, self._clock.monotonic())
        waited = self._clock.monotonic() - told_at
        supervisor = (file.supervisor_pid, file.supervisor_started)
        if is_running(*supervisor):
            signal_process(*supervisor, signal.SIGTERM)
            if waited > file.stop_grace_seconds + _STUCK_SECONDS:
                signal_process(*supervisor, signal.SIGKILL)
        elif self._is_engine_left(file):
            if is_first_time:
                # Only once, because some servers take a second SIGTERM as "exit immediately".
                signal_process(file.engine_pid, file.engine_started, signal.SIGTERM)
            if waited > file.stop_grace_seconds:
                signal_group(file.engine_pid, signal.SIGKILL)

    def _is_engine_left(self, file: ReplicaFile) -> bool:
        log = self._folder.log_of(file.id)
        return group_is_ours(file.engine_pid, file.engine_started, log)

    def _free_ports(self, count: int) -> list[int]:
        """Return the next free ports. Going round delays the reuse of a port."""
        first, last = self._settings.port_first, self._settings.port_last
        files = self._folder.read_all()
        taken = {file.port for file in files} | {file.master_port for file in files}
        found: list[int] = []
        for _ in range(last - first + 1):
            port = self._next_port
            self._next_port = port + 1 if port < last else first
            if port not in taken and _can_bind(port):
                found.append(port)
            if len(found) == count:
                return found
        raise NoReplica(f"No port between {first} and {last} is free for an engine.")


def _leave_supervisor(state_file: Path) -> None:
    """Start a supervisor, and return as soon as it has written its pids.

    If it fails, the state file has an exit code or no pids, and the replica is observed as ended.
    """
    with open_log(state_file.with_name("supervisor.log"), is_new=True) as log:
        try:
            subprocess.run(  # noqa: S603 - our own program, with a path of our own making
                [sys.executable, "-P", "-m", "penstock.fleet.supervisor", str(state_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                timeout=_SUPERVISOR_START_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoReplica("The replica's supervisor did not start in time.") from None


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        # Servers set this too: it makes a port free while its old connections still time out.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _exit_detail(file: ReplicaFile) -> str:
    code = file.exit_code or 0
    try:
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        how = f"killed by signal {-code}"
    return f"its keeper was lost, {how}" if file.ended_as == "orphan" else how


def _reap(pid: int) -> None:
    """Reap an ended supervisor, which only a keeper that is process 1 of its container inherits."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
