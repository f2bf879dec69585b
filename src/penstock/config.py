"""The only reader of environment and files: one TOML file plus `PENSTOCK_<ROOM>_<NAME>` overrides.

Each room declares its own Settings; this file only joins them into one tree, checks it once, and
remembers where each value came from.
"""

import os
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from penstock.admission.settings import AdmissionSettings
from penstock.catalogue.settings import CatalogueSettings
from penstock.console.settings import ControlSettings
from penstock.contracts.settings import ContractsSettings
from penstock.engine.settings import EngineSettings
from penstock.events.settings import EventsSettings, WebhookSettings
from penstock.fleet.settings import FleetSettings
from penstock.ingress.settings import IngressSettings
from penstock.metering.settings import MeteringSettings
from penstock.policy.settings import PolicySettings
from penstock.puller.settings import PullerSettings
from penstock.queue.settings import QueueSettings
from penstock.routing.settings import RoutingSettings
from penstock.sandbox.settings import SandboxSettings
from penstock.serving.settings import ServingSettings
from penstock.sessions.settings import ConversationsSettings, ResponsesSettings
from penstock.signals.settings import SignalsSettings
from penstock.store.settings import StoreSettings
from penstock.telemetry.settings import TelemetrySettings
from penstock.tools.settings import ToolsSettings
from penstock.turns.settings import TurnsSettings

PREFIX: Final = "PENSTOCK_"
FILE_VARIABLE: Final = "PENSTOCK_CONFIG"
# The folder of downloads, which the Makefile and deploy/cpu-engine use too; not a setting.
CACHE_VARIABLE: Final = "PENSTOCK_CACHE"
# The gateway, key and account for commands that call a gateway as clients; not settings.
URL_VARIABLE: Final = "PENSTOCK_URL"
KEY_VARIABLE: Final = "PENSTOCK_KEY"
ACCOUNT_VARIABLE: Final = "PENSTOCK_ACCOUNT"
# Control and an operator's key for commands of administration; not settings.
OPERATOR_URL_VARIABLE: Final = "PENSTOCK_OPERATOR_URL"
OPERATOR_KEY_VARIABLE: Final = "PENSTOCK_OPERATOR_KEY"
_CLIENT_VARIABLES: Final = (
    *(URL_VARIABLE, KEY_VARIABLE, ACCOUNT_VARIABLE),
    *(OPERATOR_URL_VARIABLE, OPERATOR_KEY_VARIABLE),
)
_NO_SETTINGS: Final = frozenset({FILE_VARIABLE, CACHE_VARIABLE, *_CLIENT_VARIABLES})
SEARCHED: Final = (Path("penstock.toml"), Path("/etc/penstock/penstock.toml"))
SECRET: Final = frozenset(
    {
        "store.dsn",
        "store.objects_access_key",
        "store.objects_secret_key",
        "engine.api_keys",
        "contracts.heads_secret",
    }
)

# Tables that hold a secret beside what may be shown.
_SECRET_FIELDS: Final = {"tools.mcp_servers": frozenset({"headers"})}


class ConfigError(ValueError):
    """A setting is wrong: the message has its source, its name and what is allowed."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting there is, by room."""

    ingress: IngressSettings = IngressSettings()
    control: ControlSettings = ControlSettings()
    serving: ServingSettings = ServingSettings()
    policy: PolicySettings = PolicySettings()
    admission: AdmissionSettings = AdmissionSettings()
    routing: RoutingSettings = RoutingSettings()
    signals: SignalsSettings = SignalsSettings()
    engine: EngineSettings = EngineSettings()
    metering: MeteringSettings = MeteringSettings()
    fleet: FleetSettings = FleetSettings()
    puller: PullerSettings = PullerSettings()
    queue: QueueSettings = QueueSettings()
    responses: ResponsesSettings = ResponsesSettings()
    conversations: ConversationsSettings = ConversationsSettings()
    tools: ToolsSettings = ToolsSettings()
    turns: TurnsSettings = TurnsSettings()
    events: EventsSettings = EventsSettings()
    webhooks: WebhookSettings = WebhookSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    contracts: ContractsSettings = ContractsSettings()
    sandbox: SandboxSettings = SandboxSettings()
    store: StoreSettings = StoreSettings()
    telemetry: TelemetrySettings = TelemetrySettings()


class Loaded(msgspec.Struct, frozen=True):
    """The settings, and where each one that is not a default came from (`room.name` → source)."""

    config: Config
    sources: dict[str, str]


def load(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    rooms: Collection[str] = Config.__struct_fields__,
) -> Loaded:
    """Read the file (given, named by PENSTOCK_CONFIG, or found) and the environment.

    With `rooms`, settings of all others are left out unread: they keep their defaults.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    tree: dict[str, Any] = {}
    sources: dict[str, str] = {}
    found = _find_file(file, environ)
    if found is not None:
        tree = {
            room: values
            for room, values in _read_file(found).items()
            if room in rooms or room not in Config.__struct_fields__
        }
        sources = _names_in(tree, str(found))
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in _NO_SETTINGS:
            continue
        room, name = _name_of(variable)
        if room not in rooms:
            continue
        tree.setdefault(room, {})[name] = _value_of(variable, text, room, name)
        sources[f"{room}.{name}"] = variable
    try:
        config = msgspec.convert(tree, Config)
    except msgspec.ValidationError as wrong:
        raise ConfigError(_explain(str(wrong), sources)) from None
    return Loaded(config, sources)


class ClientDefaults(msgspec.Struct, frozen=True):
    """Values for options that a client command was not given; empty if not set."""

    url: str = ""
    key: str = ""
    account: str = ""
    operator_url: str = ""
    operator_key: str = ""


def client_defaults(environ: Mapping[str, str] | None = None) -> ClientDefaults:
    """Return what the environment says to clients of Penstock. Servers do not read it."""
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    return ClientDefaults(*(environ.get(name, "").strip() for name in _CLIENT_VARIABLES))


class Shown(msgspec.Struct, frozen=True):
    """One setting, as it may be shown to people: a secret's value is hidden."""

    name: str
    value: object
    source: str


def show(loaded: Loaded) -> list[Shown]:
    """Return every setting, room by room, with the source of its value."""
    shown = []
    for room in Config.__struct_fields__:
        for name, value in msgspec.structs.asdict(getattr(loaded.config, room)).items():
            key = f"{room}.{name}"
            # An empty secret is shown, so that an operator sees that it is not set.
            plain = "(hidden)" if value and key in SECRET else _shown_value(key, value)
            shown.append(Shown(key, plain, loaded.sources.get(key, "default")))
    return shown


def _shown_value(key: str, value: object) -> object:
    plain = msgspec.to_builtins(value)
    if key not in _SECRET_FIELDS:
        return plain
    hidden = _SECRET_FIELDS[key]
    return [
        {name: "(hidden)" if held and name in hidden else held for name, held in table.items()}
        for table in plain
    ]


def environment_for(values: Mapping[str, object], file: Path | None = None) -> dict[str, str]:
    """Return this process's environment plus settings (`room.name` → value), for a child."""
    return {**os.environ, **_variables(values, file)}  # noqa: TID251 - passed on, not read


def export(values: Mapping[str, object], file: Path | None = None) -> None:
    """Write settings into this process's own environment, which its workers inherit."""
    os.environ.update(_variables(values, file))  # noqa: TID251 - passed on, not read


def cpu_engine_folder() -> Path:
    """Return the folder that deploy/cpu-engine/setup installs into by default."""
    cache = os.environ.get(CACHE_VARIABLE)  # noqa: TID251 - the one reader
    return (Path(cache) if cache else Path.home() / ".cache" / "penstock") / "cpu-engine"


def _variables(values: Mapping[str, object], file: Path | None) -> dict[str, str]:
    variables = {
        f"{PREFIX}{key.replace('.', '_').upper()}": value if isinstance(value, str) else toml(value)
        for key, value in values.items()
    }
    return variables | ({FILE_VARIABLE: str(file.absolute())} if file is not None else {})


def toml(value: object) -> str:
    """Return a value as TOML on one line. JSON strings are valid TOML, except for DEL."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        pairs = (f"{toml(str(key))} = {toml(item)}" for key, item in plain.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(plain, list | tuple):
        return f"[{', '.join(toml(item) for item in plain)}]"
    return msgspec.json.encode(plain).decode().replace("\x7f", "\\u007f")


def _find_file(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = file or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if named is not None:
        if not named.is_file():
            raise ConfigError(f"{named}: there is no such file.")
        return named
    return next((path for path in SEARCHED if path.is_file()), None)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as bad:
        raise ConfigError(f"{path}: {bad}") from None
    except OSError as unreadable:
        raise ConfigError(f"{path}: {unreadable.strerror}") from None


def _names_in(tree: dict[str, Any], file: str) -> dict[str, str]:
    """Return each setting in a file with the file as its source; refuses unknown names."""
    sources = {}
    for room, values in tree.items():
        names = _names_of(room, file)
        if not isinstance(values, dict):
            raise ConfigError(f"{file}: `{room}` is a room: write its settings under [{room}].")
        for name in values:
            _refuse_unknown(room, name, names, file)
            sources[f"{room}.{name}"] = file
    return sources


def _name_of(variable: str) -> tuple[str, str]:
    room, _, name = variable.removeprefix(PREFIX).lower().partition("_")
    _refuse_unknown(room, name, _names_of(room, variable), variable)
    return room, name


def _names_of(room: str, source: str) -> tuple[str, ...]:
    rooms = Config.__struct_fields__
    if room not in rooms:
        raise ConfigError(f"{source}: no room `{room}`; there are {', '.join(rooms)}.")
    names: tuple[str, ...] = getattr(Config(), room).__struct_fields__
    return names


def _refuse_unknown(room: str, name: str, names: tuple[str, ...], source: str) -> None:
    if name not in names:
        raise ConfigError(f"{source}: `{room}` has no `{name}`; it has {', '.join(names)}.")


def _value_of(variable: str, text: str, room: str, name: str) -> object:
    """Parse a variable: unchanged for a string setting, as a TOML value for any other."""
    wanted = get_type_hints(type(getattr(Config(), room)), include_extras=True)[name]
    if wanted is str or (get_origin(wanted) is Annotated and get_args(wanted)[0] is str):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        try:
            # A choice may be a bare word (`info`), without TOML's quotes.
            return msgspec.convert(text, wanted)
        except msgspec.ValidationError as wrong:
            is_secret = f"{room}.{name}" in SECRET | _SECRET_FIELDS.keys()
            said = "" if is_secret else f"={text!r}"
            raise ConfigError(f"{variable}{said}: {wrong}") from None


def _explain(problem: str, sources: dict[str, str]) -> str:
    what, _, path = problem.partition(" - at `$.")
    key = path.rstrip("`")
    if not key:
        return problem
    plain = key.split("[", 1)[0]
    # An error about a whole room may involve several values, each with its own source.
    places = {at for name, at in sources.items() if name == plain or name.startswith(f"{plain}.")}
    source = ", ".join(sorted(places)) or "the configuration"
    return f"{source}: `{key}`: {what}"
