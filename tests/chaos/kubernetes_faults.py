"""What is done to a cell on a cluster, and what must be so afterwards.

Each fault is a method; it returns what was wrong. Streams of replicas in `lost` may break: their
engines were killed, or their node was cut off. Not covered: the loss of the node with gateways,
control, the keeper and NATS, because the overlay `tiny` runs all of them on node-1.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from tests.acceptance.client_run import ROOT
from tests.chaos.kubernetes_cell import DSN, KubernetesCell
from tests.chaos.kubernetes_load import ClusterLoad, Failure
from tests.chaos.kubernetes_watch import RosterWatch

REPLICAS: Final = 4
_SETTLE_SECONDS = 120.0
_ROUTED_SECONDS = 2.0
_API_SECONDS = 60.0
_BACK_SECONDS = 30.0
# How long the roster is looked at after a part of Penstock has come back.
_STEADY_SECONDS = 5.0
_FAR_NODE = 2
_THEIRS = Path(__file__).with_name("beside_engine.yaml")
_THEIR_NAMESPACE = "engines"
_STREAMS_THERE = 2
# A short request takes some milliseconds; this much is a sign that a dead engine was asked.
_SLOW_SECONDS = 2.0

FAULTS: Final = (
    *("roll_out", "drain_node", "delete_pod", "kill_engine", "kill_keeper", "kill_control"),
    *("restart_gateways", "cut_cable", "cut_power", "stop_api_server", "run_out_of_memory"),
    *("roll_out", "drain_node", "kill_keeper", "kill_engine", "restart_gateways"),
    "replace_theirs",
)
# Clients must see nothing of these.
_UNSEEN: Final = frozenset(
    {
        *("roll_out", "drain_node", "delete_pod", "kill_keeper", "kill_control"),
        *("restart_gateways", "stop_api_server", "run_out_of_memory"),
        "replace_theirs",
    }
)


class ClusterFaults:
    """`problems` of a fault are what it returns, and failed requests that nothing explains."""

    def __init__(self, cell: KubernetesCell, load: ClusterLoad, watch: RosterWatch) -> None:
        self._cell = cell
        self._load = load
        self._watch = watch
        self._round = 0
        # When a node was cut off last.
        self._cut_at = 0.0
        self.lost: set[str] = set()

    async def do(self, name: str) -> list[str]:
        began, failed = time.monotonic(), len(self._load.failures)
        self._round += 1
        problems: list[str] = await getattr(self, name)()
        if not await self._watch.until_ready(REPLICAS, _SETTLE_SECONDS):
            problems.append(f"not {REPLICAS} ready: {self._watch.rows}")
        new = self._load.failures[failed:]
        seen = [failure for failure in new if not self._may_fail(name, failure)]
        problems += [f"a client saw it: {failure}" for failure in seen]
        took = time.monotonic() - began
        print(f"{name}: {took:.0f} s, {len(new)} failures, {len(problems)} problems", flush=True)
        return [f"{name}: {problem}" for problem in problems]

    def _may_fail(self, name: str, failure: Failure) -> bool:
        """Whether a fault explains the failure of a request that ended before all was at rest."""
        if name in _UNSEEN:
            return False
        if name == "kill_engine":
            # Gateways send a short request again, and a stream that has not begun.
            return failure.is_stream and failure.status == 200 and failure.replica in self.lost
        # Of a lost node: only what was sent there before gateways could notice.
        was_there = failure.replica in {*self.lost, ""}
        noticed_at = self._cut_at + _ROUTED_SECONDS
        return was_there and failure.began <= noticed_at and failure.ended >= self._cut_at

    async def deploy(self) -> None:
        """Make the page's deployment as large as this needs it."""
        await self._apply("{}")
        assert await self._watch.until_ready(REPLICAS, _SETTLE_SECONDS)

    async def roll_out(self) -> list[str]:
        old = set(self._watch.ready())
        await self._apply(f'{{ ROUND = "{self._round}" }}')
        if not await self._watch.until_ready(REPLICAS, _SETTLE_SECONDS, without=old):
            return ["the rollout did not come to its end"]
        return []

    async def drain_node(self) -> list[str]:
        there = await self._occupied()
        node = f"node-{_FAR_NODE}"
        words = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
        await self._kubectl("drain", node, *words)
        problems = []
        if not await self._watch.until_ready(REPLICAS, _SETTLE_SECONDS, without=there):
            problems.append("the replicas were not replaced elsewhere")
        await self._kubectl("uncordon", node)
        return problems

    async def delete_pod(self) -> list[str]:
        replica = self._busiest()
        await self._kubectl(
            "-n", "penstock-engines", "delete", "pod", f"replica-{replica}", "--wait=false"
        )
        return await self._replaced({replica})

    async def kill_engine(self) -> list[str]:
        replica = self._busiest()
        self.lost.add(replica)
        await self._kill("penstock-engines", f"replica-{replica}")
        problems = await self._replaced({replica})
        if "137" not in self._watch.find(replica).detail:
            problems.append(f"its reason is not shown: {self._watch.find(replica).detail}")
        return problems

    async def kill_keeper(self) -> list[str]:
        return await self._kill_one_of_ours("keeper", self._keeper_is_back)

    async def kill_control(self) -> list[str]:
        return await self._kill_one_of_ours("control", self._control_is_back)

    async def restart_gateways(self) -> list[str]:
        """Replace all that is Penstock's: engines must not notice."""
        before = set(self._watch.ready())
        parts = ("statefulset/gateway", "deployment/control", "deployment/keeper")
        await self._kubectl("-n", "penstock", "rollout", "restart", *parts)
        for part in parts:
            await self._kubectl("-n", "penstock", "rollout", "status", part, "--timeout=180s")
        await self._watch.look()
        return [] if set(self._watch.ready()) == before else ["engines were restarted"]

    async def cut_cable(self) -> list[str]:
        node = self._cell.cluster.nodes[_FAR_NODE]
        there = await self._occupied()
        self.lost |= there
        self._cut_at = time.monotonic()
        node.cut_cable()
        problems = await self._lost_node(there)
        ghosts = {f"replica-{replica}" for replica in there}
        if not ghosts <= await self._pod_names():
            problems.append("the ghosts were forgotten before their node was back")
        node.plug_cable()
        return problems + await self._ended(ghosts)

    async def cut_power(self) -> list[str]:
        node = self._cell.cluster.nodes[_FAR_NODE]
        there = await self._occupied()
        self.lost |= there
        self._cut_at = time.monotonic()
        node.cut_power()
        problems = await self._lost_node(there)
        await asyncio.to_thread(node.start)
        await asyncio.to_thread(self._cell.cluster.wait_ready, _FAR_NODE)
        return problems + await self._ended({f"replica-{replica}" for replica in there})

    async def stop_api_server(self) -> list[str]:
        before = set(self._watch.ready())
        plane = self._cell.cluster.plane
        plane.stop_server()
        await asyncio.sleep(_API_SECONDS)
        # Not in a thread: the server would end with that.
        plane.start_server()
        await self._watch.look()
        problems = [] if set(self._watch.ready()) == before else ["the roster changed"]
        # The keeper hears of pods again, and the cluster starts them.
        return problems + await self.delete_pod()

    async def run_out_of_memory(self) -> list[str]:
        lines = ["[deployment.hungry]", 'model = "hungry"', 'pool = "tiny"']
        self._write("hungry.toml", "\n".join(lines))
        await self._penstock("deploy apply hungry.toml --why hunger")
        is_shown = False
        for _ in range(120):
            rows = await self._watch.look()
            is_shown = any("OOMKilled" in row.detail for row in rows)
            if is_shown:
                break
            await asyncio.sleep(0.5)
        await self._penstock("deploy remove hungry")
        return [] if is_shown else [f"not shown: {[row.detail for row in self._watch.rows]}"]

    async def replace_theirs(self) -> list[str]:
        """Replace the pod of an engine that others make, whose keeper runs beside it."""
        models = ROOT / "deploy" / "kubernetes" / "overlays" / "tiny" / "models"
        ours = set(self._watch.ready())
        there = ("-n", _THEIR_NAMESPACE)
        await self._kubectl("create", "namespace", _THEIR_NAMESPACE)
        await self._kubectl("label", "namespace", _THEIR_NAMESPACE, "penstock.dev/cell=member")
        secret = ("secret", "generic", "penstock", f"--from-literal=dsn={DSN}")
        await self._kubectl(*there, "create", *secret)
        await self._kubectl(*there, "create", "configmap", "theirs", f"--from-file={models}")
        await self._kubectl("apply", "-f", str(_THEIRS))
        problems = []
        if not await self._watch.until_ready(REPLICAS + 1, _SETTLE_SECONDS):
            problems.append(f"the engine of others is not ready: {self._watch.rows}")
        [first] = set(self._watch.ready()) - ours
        # Streams come to it before its pod is told to end.
        await asyncio.sleep(15)
        await self._kubectl(*there, "rollout", "restart", "deployment/theirs")
        if not await self._watch.until_ready(REPLICAS + 1, _SETTLE_SECONDS, without={first}):
            problems.append(f"its successor is not ready: {self._watch.rows}")
        await self._kubectl("delete", "-f", str(_THEIRS))
        # It goes when its pods have ended.
        await self._kubectl("delete", "namespace", _THEIR_NAMESPACE, "--wait=false")
        if not any(failure.replica == first for failure in self._load.failures):
            return problems
        return [*problems, "streams broke at the engine of others"]

    async def _lost_node(self, there: set[str]) -> list[str]:
        """Wait for the replacements, and look for requests that waited for the node meanwhile."""
        problems = await self._replaced(there)
        return problems + [
            f"a request that began {at - self._cut_at:.1f} s later took {took:.1f} s"
            for at, took in self._load.waits
            if at > self._cut_at + _ROUTED_SECONDS and took > _SLOW_SECONDS
        ]

    async def _replaced(self, replicas: set[str]) -> list[str]:
        if await self._watch.until_ready(REPLICAS, _SETTLE_SECONDS, without=replicas):
            return []
        return [f"{replicas} not replaced: {self._watch.rows}"]

    async def _ended(self, pods: set[str]) -> list[str]:
        for _ in range(int(_SETTLE_SECONDS)):
            if not pods & await self._pod_names():
                return []
            await asyncio.sleep(1)
        return [f"pods did not end: {pods}"]

    async def _kill_one_of_ours(
        self, component: str, is_back: Callable[[], Awaitable[bool]]
    ) -> list[str]:
        before = set(self._watch.ready())
        [pod] = await self._ours(component)
        await self._kill("penstock", pod["metadata"]["name"])
        back = await is_back()
        problems = [] if back else [f"the {component} is not back after {_BACK_SECONDS:.0f} s"]
        await asyncio.sleep(_STEADY_SECONDS)
        await self._watch.look()
        if set(self._watch.ready()) != before:
            problems.append("the roster changed")
        return problems

    async def _keeper_is_back(self) -> bool:
        return await self._watch.until_keeper_reports(_BACK_SECONDS)

    async def _control_is_back(self) -> bool:
        """Whether control serves operators again, and leads."""
        began = time.monotonic()
        [pod] = await self._ours("control")
        asking = f"until {_penstock_at(pod, 'deploy status')}; do sleep 0.5; done"
        # In a shell of its own: the reader's terminal ends with a command that fails.
        bounded = f'timeout {_BACK_SECONDS:.0f} bash -c "{asking}" >&2 && echo yes || echo no'
        if (await asyncio.to_thread(self._cell.typed, bounded)).strip() != "yes":
            return False
        name = pod["metadata"]["name"]
        while (passed := time.monotonic() - began) < _BACK_SECONDS:
            # Not what the killed process had logged: the kubelet may still show that.
            since = f"--since={int(passed) + 1}s"
            if '"control_leads"' in await self._kubectl("-n", "penstock", "logs", name, since):
                return True
            await asyncio.sleep(0.5)
        return False

    async def _kill(self, namespace: str, name: str) -> None:
        """kill -9 of all processes of a pod but the one that holds its namespaces."""
        listed = await asyncio.to_thread(self._cell.pods, namespace)
        [pod] = [each for each in listed if each["metadata"]["name"] == name]
        pids = _pids_of(pod["metadata"]["uid"])
        assert pids, f"no process of {name}"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def _busiest(self) -> str:
        """The replica with the most open streams."""
        return max(self._watch.ready(), key=lambda replica: self._load.open_at[replica])

    async def _occupied(self) -> set[str]:
        """The replicas of the far node, with streams; pods are moved there if it has none."""
        if not self._on_far_node():
            await self._kubectl("cordon", "node-1")
            moved = sorted(self._watch.ready())[: REPLICAS // 2]
            pods = [f"replica-{replica}" for replica in moved]
            await self._kubectl("-n", "penstock-engines", "delete", "pod", *pods)
            assert not await self._replaced(set(moved))
            await self._kubectl("uncordon", "node-1")
        there = self._on_far_node()
        for _ in range(int(_SETTLE_SECONDS)):
            if sum(self._load.open_at[replica] for replica in there) >= _STREAMS_THERE:
                return there
            await asyncio.sleep(1)
        raise AssertionError("no streams came to the far node")

    def _on_far_node(self) -> set[str]:
        ready = self._watch.ready().values()
        return {row.id for row in ready if row.host == f"node-{_FAR_NODE}"}

    async def _pod_names(self) -> set[str]:
        listed = await asyncio.to_thread(self._cell.pods, "penstock-engines")
        return {pod["metadata"]["name"] for pod in listed}

    async def _apply(self, environment: str) -> None:
        replicas = f"replicas = {{ min = {REPLICAS}, max = {REPLICAS} }}"
        lines = ["[deployment.chat]", 'model = "tiny"', 'pool = "tiny"', replicas]
        self._write("models.toml", "\n".join([*lines, f"environment = {environment}"]))
        await self._penstock(f"deploy apply models.toml --why 'round {self._round}'")

    def _write(self, name: str, text: str) -> None:
        (self._cell.folder / "home" / name).write_text(text)

    async def _penstock(self, words: str) -> str:
        """At the address of control's pod: the page's forwarding ends with the pod before it."""
        [pod] = await self._ours("control")
        return await asyncio.to_thread(self._cell.typed, _penstock_at(pod, words))

    async def _ours(self, component: str) -> list[dict[str, Any]]:
        """The pods of a component that are not ending."""
        label = {"app.kubernetes.io/component": component}.items()
        return [
            pod
            for pod in await asyncio.to_thread(self._cell.pods, "penstock")
            if label <= pod["metadata"]["labels"].items()
            and "deletionTimestamp" not in pod["metadata"]
        ]

    async def _kubectl(self, *words: str) -> str:
        return await asyncio.to_thread(self._cell.kubectl, *words)


def _penstock_at(pod: dict[str, Any], words: str) -> str:
    return f"PENSTOCK_OPERATOR_URL=http://{pod['status']['podIP']}:8790 penstock {words}"


def _pids_of(pod: str) -> list[int]:
    """Processes of a pod's containers, as this machine numbers them."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            groups = (folder / "cgroup").read_text()
            program = (folder / "comm").read_text().strip()
        except OSError:
            continue
        if f"pod{pod}" in groups and program != "busybox":
            found.append(int(folder.name))
    return found
