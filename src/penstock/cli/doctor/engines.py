"""Checks each engine's health, and the arguments that Penstock's promises depend on."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from penstock.cli.doctor.check import Check, fail, ok, warn
from penstock.cli.http_call import HttpCaller
from penstock.cli.up.attached import NOT_VLLM
from penstock.errors import ReplicaUnreachable
from penstock.records.dialect import VLLM, health_path

_PREFIX_CACHING = re.compile(rb'vllm:cache_config_info\{[^}]*enable_prefix_caching="(\w+)"')
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_NOT_VLLM_ADVICE = "Nothing, if one account uses it; else run the model on vLLM."


class FoundEngine(msgspec.Struct, frozen=True):
    """One engine to check. `argv` is empty if no keeper of this machine started it."""

    url: str
    model: str
    served_name: str = ""
    is_ready: bool = True
    dialect: str = VLLM
    argv: tuple[str, ...] = ()


class _Usage(msgspec.Struct):
    prompt_tokens_details: dict[str, object] | None = None


class _Completion(msgspec.Struct):
    usage: _Usage | None = None


class _Named(msgspec.Struct):
    id: str


class _Names(msgspec.Struct):
    data: list[_Named] = []


def check_engine(caller: HttpCaller, engine: FoundEngine) -> list[Check]:
    """Check one engine. Blocks for as long as one short answer takes."""
    name = f"engine {engine.url}"
    try:
        path = health_path(engine.dialect)
        health = caller.get(engine.url, path).status
        if health != 200:
            return [fail(name, f"{path} answers {health}", "Look into the engine's log.")]
        if not engine.is_ready:
            return [warn(name, f"{engine.model} is not ready yet", "Wait for its keeper.")]
        if engine.dialect != VLLM:
            return [ok(name, f"serves {engine.model}"), warn(name, NOT_VLLM, _NOT_VLLM_ADVICE)]
        return [
            ok(name, f"serves {engine.model}"),
            _prompt_details(caller, engine),
            _prefix_caching(caller, engine),
            *_arguments(engine),
            *_check_key(caller, engine),
        ]
    except ReplicaUnreachable as failure:
        if engine.argv and not engine.is_ready:
            return [warn(name, f"{engine.model} is starting", "Wait for its keeper.")]
        advice = "Start the engine, or take it out of fleet.replicas."
        return [fail(name, failure.message, advice)]


def _prompt_details(caller: HttpCaller, engine: FoundEngine) -> Check:
    """Ask for one token, because only an answer shows whether this flag is set."""
    name = f"engine {engine.url} usage"
    served = engine.served_name or _first_name(caller, engine.url)
    body = {"model": served, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    answer = caller.post(engine.url, "/v1/chat/completions", msgspec.json.encode(body))
    if answer.status != 200:
        text = answer.body[:200].decode(errors="replace")
        return fail(
            name, f"a request of one token gets {answer.status}: {text}", "Look into its log."
        )
    try:
        usage = msgspec.json.decode(answer.body, type=_Completion).usage
    except msgspec.DecodeError as wrong:
        return fail(name, f"its answer cannot be read: {wrong}", "Is that an OpenAI server?")
    if usage is None or usage.prompt_tokens_details is None:
        return warn(
            name,
            "does not say how many tokens were cached",
            "Start the engine with --enable-prompt-tokens-details.",
        )
    return ok(name, "says how many tokens were cached")


def _prefix_caching(caller: HttpCaller, engine: FoundEngine) -> Check:
    name = f"engine {engine.url} prefix cache"
    found = _PREFIX_CACHING.search(caller.get(engine.url, "/metrics").body)
    if found is None:
        return warn(name, "not visible in /metrics", "Make sure that prefix caching is on.")
    if found[1] != b"True":
        return warn(name, "is off", "Start the engine with --enable-prefix-caching.")
    return ok(name, "is on")


def _arguments(engine: FoundEngine) -> list[Check]:
    """Check what no answer shows, on the command line of engines that a keeper started."""
    if not engine.argv:
        return []
    name = f"engine {engine.url} arguments"
    missing = [
        argument
        for argument, value in (("--shutdown-timeout", ""), ("--scheduling-policy", "priority"))
        if not _has(engine.argv, argument, value)
    ]
    if missing:
        advice = "Add them to the recipe (docs/catalogue.md says what each is for)."
        return [warn(name, f"lacks {' and '.join(missing)}", advice)]
    return [ok(name, "has --shutdown-timeout and --scheduling-policy priority")]


def _check_key(caller: HttpCaller, engine: FoundEngine) -> list[Check]:
    """Check that an engine that other hosts reach refuses calls without its key."""
    if urlsplit(engine.url).hostname in _LOOPBACK:
        return []
    name = f"engine {engine.url} key"
    if caller.without_keys().get(engine.url, "/v1/models").status != 200:
        return [ok(name, "refuses calls without it")]
    return [
        warn(
            name,
            "takes calls from anyone who reaches it, past every limit and bill",
            'Give it a key: VLLM_API_KEY = "{engine_key}" in its recipe, or engine.api_keys.',
        )
    ]


def _has(argv: Sequence[str], argument: str, value: str) -> bool:
    for index, word in enumerate(argv):
        given = word.partition("=")[2] or "".join(argv[index + 1 : index + 2])
        if word.partition("=")[0] == argument:
            return value in {"", given}
    return False


def _first_name(caller: HttpCaller, url: str) -> str:
    try:
        names = msgspec.json.decode(caller.get(url, "/v1/models").body, type=_Names).data
    except msgspec.DecodeError:
        return ""
    return names[0].id if names else ""
