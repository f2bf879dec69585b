"""Settings of the keeper's replicas, and the timeouts of keeper, roster mirror and reaper."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0, le=604800)]
Port = Annotated[int, Meta(ge=1024, le=65535)]


class WantedReplicas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replicas of one model that this keeper shall have."""

    # The model's id or alias in the catalogue.
    model: str
    # How many replicas of it; an attached server is always one.
    count: Annotated[int, Meta(ge=0, le=64)] = 1
    # "process" launches engines on this host; "attach" takes over a server that already runs.
    provider: Literal["process", "attach"] = "process"
    # Where the attached server answers, for example https://10.0.0.7:8000; empty for "process".
    url: str = ""
    # Requests one replica takes at once before it counts as busy; 0 = what the recipe says.
    slots_live: Annotated[int, Meta(ge=0, le=65536)] = 0
    # Whether an attached vLLM was started with `--scheduling-policy priority`: it then
    # runs live requests before flex work inside the engine too. A recipe says it by itself.
    has_priority: bool = False
    # What an attached server speaks: "vllm", or "openai" for any other server with OpenAI's API;
    # empty = what the recipe says.
    dialect: Literal["", "vllm", "openai"] = ""

    def __post_init__(self) -> None:
        if self.provider == "process" and self.url:
            raise ValueError('url is for provider = "attach"; a launched engine gets its own')
        parts = urlsplit(self.url)
        if self.provider == "attach" and not (parts.scheme in {"http", "https"} and parts.hostname):
            raise ValueError('provider = "attach" needs a url such as http://10.0.0.7:8000')
        if self.provider == "attach" and self.count > 1:
            raise ValueError("an attached server is one replica: write one entry for each")


class FleetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fleet room's part of the configuration."""

    # What this keeper runs; a keeper without entries runs nothing.
    replicas: tuple[WantedReplicas, ...] = ()
    # What this keeper starts: "settings" = the replicas above; "deployments" = what control places
    # here (`penstock deploy apply`), and nothing of the above.
    obeys: Literal["settings", "deployments"] = "settings"
    # The pool of a Kubernetes cluster whose replicas this keeper starts as pods; empty = it starts
    # processes of its own host. A pool obeys deployments.
    pool: Annotated[str, Meta(pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$")] = ""
    # A file with the `spec` of a pool's pods, as YAML: the image, volumes, which nodes.
    pod_template: str = ""
    # The namespace of the pods; empty = that of the keeper's own pod.
    pod_namespace: str = ""
    # The ConfigMap that owns the pods; deleting it deletes them.
    pod_owner: str = "penstock-replicas"
    # The port at which engines listen in their pods.
    pod_port: Port = 8000
    # How the cluster is reached; empty = by the keeper's own service account.
    kube_config_file: str = ""
    # Where a keeper keeps what it must know after its own restart: pids, ports, engine logs.
    state_folder: str = "penstock-state/fleet"
    # The name of this host in the roster; empty = ask the machine.
    host: str = ""
    # Whether launched engines get a key that callers must send, by `{engine_key}` in their recipes.
    # "cell" = true in a cell that was made with such keys, false in one that is older.
    engine_keys: bool | Literal["cell"] = "cell"
    # Labels of this host, by which deployments choose hosts, such as `gpu = "h200"`.
    labels: dict[str, str] = {}
    # This host's GPUs: how many, or a list of their ids, which may leave out those that other
    # programs use; "auto" = ask NVIDIA's library.
    gpus: Annotated[int, Meta(ge=0, le=64)] | tuple[str, ...] | Literal["auto"] = "auto"
    # A GPU on which programs that are not ours hold more megabytes than this is left alone.
    gpu_foreign_mb: Annotated[int, Meta(ge=0, le=1_000_000)] = 1024
    # The folder that `{engine_home}` stands for in recipes; empty is right for recipes without it.
    engine_home: str = ""
    # Where this host keeps the weights that it fetches for recipes with `{weights}`.
    weights_folder: Annotated[str, Meta(min_length=1)] = "penstock-state/weights"
    # The most files that one source of weights may have.
    weights_files_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    # What a fetch of weights leaves free on the disk, in megabytes.
    weights_spare_mb: Annotated[int, Meta(ge=0, le=10**9)] = 1024
    # The address at which gateways reach the engines that this keeper launches.
    replica_address: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    # The first port that a launched engine may get.
    port_first: Port = 18000
    # The last port that a launched engine may get.
    port_last: Port = 18999
    # How often the keeper looks, plans, acts, and says that it lives.
    heartbeat_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # After this long without a keeper an engine is ended by its own supervisor.
    orphan_seconds: Annotated[float, Meta(ge=0.2, le=604800)] = 600.0
    # How long a starting keeper waits for the one before it to let go of the state folder.
    lock_wait_seconds: Annotated[float, Meta(ge=0, le=3600)] = 10.0
    # The pause before a failed replica is started again, the first time.
    restart_first_seconds: Annotated[float, Meta(ge=0.01, le=3600)] = 1.0
    # The pause grows by this factor with every further failure.
    restart_factor: Annotated[float, Meta(ge=1, le=10)] = 2.0
    # The pause never grows beyond this.
    restart_seconds_max: Annotated[float, Meta(ge=0.01, le=86400)] = 60.0
    # A replica that was ready for this long had started well: its failure counts as the first.
    restart_reset_seconds: Seconds = 120.0
    # How often each ready engine is asked for its health; a starting one is asked every heartbeat.
    health_interval_seconds: Annotated[float, Meta(ge=0.05, le=3600)] = 2.0
    # How long one health, models or metrics answer may take.
    health_timeout_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 5.0
    # The largest health, models or metrics answer that is read.
    health_bytes_max: Annotated[int, Meta(ge=1024, le=2**26)] = 4 * 2**20
    # How often each ready engine is asked for its load, which gateways are told.
    load_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 0.5
    # How long that answer may take; gateways ask an engine that is later for its health themselves.
    load_timeout_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # A ready engine whose health has failed for this long is replaced.
    unhealthy_seconds: Seconds = 60.0
    # How long a draining replica may finish its streams before it is stopped all the same.
    drain_seconds: Annotated[float, Meta(ge=0, le=604800)] = 600.0
    # How long a drain waits at least, so that every gateway has read the roster.
    drain_settle_seconds: Annotated[float, Meta(ge=0, le=600)] = 3.0
    # Whether a keeper of attached servers that is told to end drains them first, and stays until
    # they have ended: for one that runs beside its engine in the same pod.
    drain_at_stop: bool = False
    # How long an engine may take to end after SIGTERM before its process group is killed.
    stop_grace_seconds: Annotated[float, Meta(ge=0, le=3600)] = 75.0
    # An engine's log is cut at this size; one older part of the same size is kept.
    engine_log_bytes_max: Annotated[int, Meta(ge=4096, le=2**33)] = 16 * 2**20
    # How many ended replicas keep their folder with the log that says why they ended.
    ended_kept: Annotated[int, Meta(ge=0, le=10000)] = 20
    # How many ended replicas are remembered for the roster while Postgres is away.
    unwritten_max: Annotated[int, Meta(ge=1, le=100000)] = 1000
    # How often a gateway asks Postgres for changes of the roster.
    roster_poll_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # How often the control process looks for replicas whose keeper is lost.
    reap_seconds: Annotated[float, Meta(ge=0.05, le=3600)] = 30.0
    # A replica is given up this long after its supervisor must have ended it.
    reap_margin_seconds: Annotated[float, Meta(ge=0, le=86400)] = 60.0
    # The address of a keeper's own `/metrics`.
    metrics_host: str = "127.0.0.1"
    # Its port; 0 = none. Where the port is taken, the keeper goes on without it.
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 8789
    # How long the rows of replicas that are gone are kept.
    gone_keep_hours: Annotated[float, Meta(ge=0, le=8760)] = 24.0

    def __post_init__(self) -> None:
        if self.port_first > self.port_last:
            raise ValueError("port_first is greater than port_last")
        if self.pool and self.obeys != "deployments":
            raise ValueError('pool needs obeys = "deployments"')
        if self.pool and not self.pod_template:
            raise ValueError("pool needs pod_template")
        launches = any(wanted.provider != "attach" for wanted in self.replicas)
        if self.drain_at_stop and (launches or self.obeys != "settings"):
            raise ValueError("drain_at_stop is for keepers whose servers are all attached")
