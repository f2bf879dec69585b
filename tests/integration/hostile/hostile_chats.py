"""Requests with a head in order and an odd body, or to an engine that misbehaves."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from tests.integration.cells.gateway_cell import ABSENT, CHAT, NATIVE, PLAIN, PRIVATE, prompt
from tests.integration.hostile import hostile_bodies as bodies
from tests.integration.hostile.hostile_caller import V1, Caller
from tests.integration.hostile.hostile_engines import scripts
from tests.integration.hostile.hostile_json import Pair, deep, key, obj, text
from tests.integration.hostile.hostile_shot import Shot

_MODELS = (CHAT, CHAT, NATIVE, NATIVE, PLAIN)
_ODD_MODELS = (
    "", " ", "default", "x", "@cf/test/nobody", "@cf/test/chat ", "@CF/TEST/CHAT", "a//b", "/a",
    "a/", "\0", "é", "%2F", "..", "../../etc/passwd", "@cf/test/chat\n", "a" * 300, "a/" * 200,
    "\ud83d\ude00", "\ud800", "chat", PRIVATE, ABSENT,
)  # fmt: skip
_QUERIES = ("", "?rejectIfBusy=true", "?queueRequest=1", "?tags=%ff&&=", "?stream=1", "?a=b;c=d")
_SAID = b'{"model":"<model>","messages":[{"role":"user","content":"x"}],'
_DEEP_PLACES = (
    b"<deep>",
    b'{"model":"<model>","messages":<deep>}',
    b'{"model":"<model>","messages":[<deep>]}',
    b'{"model":<deep>,"messages":[]}',
    b'{"model":"<model>","input":<deep>}',
    b'{"model":"<model>","input":{"messages":<deep>}}',
    b'{"model":"<model>","messages":[{"role":"user","content":<deep>}]}',
    b'{"model":"<model>","messages":[{"role":"user","content":[<deep>]}]}',
    b'{"model":"<model>","messages":[{"role":"user","content":[{"image_url":<deep>}]}]}',
    b'{"model":"<model>","messages":[{"role":"user","content":[{"file":<deep>}]}]}',
    b'{"model":"<model>","messages":[{"role":"user","content":[{"text":<deep>}]}]}',
    b'{"model":"<model>","messages":[{"role":"user","content":"x","tool_calls":<deep>}]}',
    _SAID + b'"tools":[<deep>]}',
    _SAID + b'"tools":[{"name":"x","parameters":<deep>}]}',
    _SAID + b'"response_format":<deep>}',
    _SAID + b'"response_format":{"type":"json_schema","json_schema":{"schema":<deep>}}}',
    _SAID + b'"response_format":{"type":"json_schema","json_schema":<deep>}}',
    _SAID + b'"stream":true,"stream_options":<deep>}',
    _SAID + b'"options":<deep>}',
    _SAID + b'"unknown":<deep>}',
    b'{"prompt":<deep>}',
    b'{"prompt":"x","lora":<deep>}',
)
_FILLER = text({"filler": "f" * 70_000})[1:]
_FILLED = text({"messages": [{"content": "f" * 70_000}]})[1:-1] + b","
_whether = st.booleans()
_streams = st.sampled_from([b"true", b"false"])
_models = st.sampled_from(_MODELS)
_both = st.sampled_from([CHAT, NATIVE])
_queries = st.sampled_from(_QUERIES)
_slashes = st.sampled_from(["/", "%2F", "%2f"])
_inputs = st.sampled_from([(key("prompt"), b'"hi"'), (key("messages"), text(prompt()))])
_deep_places = st.sampled_from(_DEEP_PLACES)
_faulty_choices = st.sampled_from([None, None, 2, 5])
_bases: SearchStrategy[list[Pair]] = st.builds(
    lambda model, stream: [
        (key("model"), text(model)),
        (key("messages"), text(prompt())),
        (key("stream"), stream),
    ],
    _models,
    _streams,
)


def odd_fields(caller: Caller) -> SearchStrategy[Shot]:
    """Every field of a chat, on both of OpenAI's surfaces."""
    targets = st.sampled_from([V1, caller.path("v1/chat/completions")])
    return _posts(caller, "odd fields", targets, _bases.flatmap(bodies.spoiled_fields))


def odd_messages(caller: Caller) -> SearchStrategy[Shot]:
    """Roles, contents, media, tools and formats."""
    runs = [caller.path(f"run/{model}") for model in (CHAT, NATIVE)]
    targets = st.sampled_from([V1, V1, *runs])
    return _posts(caller, "odd messages", targets, _bases.flatmap(bodies.spoiled_messages))


def mangled_bodies(caller: Caller) -> SearchStrategy[Shot]:
    """Valid bodies whose bytes were spoiled."""
    targets = st.sampled_from([V1, caller.path(f"run/{CHAT}"), caller.path("run")])
    return _posts(caller, "mangled bodies", targets, _bases.flatmap(bodies.mangled))


def odd_models(caller: Caller) -> SearchStrategy[Shot]:
    """Names of models, where any text may stand."""
    names = st.one_of(st.sampled_from(_ODD_MODELS), st.text(max_size=30))
    said = [(key("messages"), text(prompt())), (key("input"), b'{"prompt":"x"}')]
    named = names.map(lambda name: obj([(key("model"), text(name)), *said]))
    targets = st.sampled_from([V1, caller.path("run"), caller.path("v1/chat/completions")])
    return _posts(caller, "odd models", targets, named)


def large_bodies(caller: Caller) -> SearchStrategy[Shot]:
    """Spoiled bodies that are long enough to be read the quick way."""
    long = text([{"role": "system", "content": "s" * 70_000}, *prompt()])
    bases = _bases.map(lambda pairs: [pairs[0], (key("messages"), long), *pairs[2:]])
    spoiled = st.one_of(
        bases.flatmap(bodies.spoiled_fields),
        bases.flatmap(bodies.mangled),
        _bases.flatmap(bodies.spoiled_messages).map(lambda body: body[:-1] + b"," + _FILLER),
        _bases.flatmap(bodies.spoiled_messages).map(lambda body: b"{" + _FILLED + body[1:]),
    )
    return _posts(
        caller, "large bodies", st.sampled_from([V1, caller.path(f"run/{CHAT}")]), spoiled
    )


@st.composite
def odd_runs(draw: DrawFn, caller: Caller) -> Shot:
    """Workers AI's input: prompt or messages, with the model in the path or in the body."""
    model = draw(_models)
    inner = draw(bodies.spoiled_fields([draw(_inputs), (key("stream"), draw(_streams))]))
    if draw(_whether):
        name = model.replace("/", draw(_slashes))
        target = caller.path(f"run/{name}{draw(_queries)}")
        return caller.post("odd runs", target, inner)
    outer = draw(bodies.spoiled_fields([(key("model"), text(model)), (key("input"), inner)]))
    return caller.post("odd runs", caller.path("run"), outer)


@st.composite
def deep_bodies(draw: DrawFn, caller: Caller) -> Shot:
    """Nested to every limit, in every place that is looked into."""
    model = draw(_both)
    place = draw(_deep_places).replace(b"<model>", model.encode())
    runs = [caller.path("run"), caller.path(f"run/{model}")]
    target = draw(st.sampled_from([V1, *runs]))
    return caller.post("deep bodies", target, place.replace(b"<deep>", draw(deep)))


@st.composite
def faulty_engines(draw: DrawFn, caller: Caller) -> Shot:
    """A request in order, to an engine that is told what to do wrong."""
    model, is_stream, script = draw(_both), draw(_whether), draw(scripts)
    pairs = [(key("model"), text(model)), (key("messages"), text(prompt(script)))]
    pairs.append((key("stream"), text(is_stream)))
    if is_stream and draw(_whether):
        options = {"include_usage": True, "continuous_usage_stats": draw(_whether)}
        pairs.append((key("stream_options"), text(options)))
    if (choices := draw(_faulty_choices)) is not None:
        pairs.append((key("n"), text(choices)))
    if draw(_whether):
        pairs.append((key("response_format"), b'{"type":"json_object"}'))
    paths = [caller.path(f"run/{model}"), caller.path("v1/chat/completions")]
    target = draw(st.sampled_from([V1, *paths]))
    shot = caller.post("faulty engines", target, obj(pairs))
    is_slow = any(name.startswith("stall") for name in script)
    return Shot(shot.kind, shot.data, is_engine_faulty=True, is_engine_slow=is_slow)


def _posts(
    caller: Caller, kind: str, targets: SearchStrategy[bytes], found: SearchStrategy[bytes]
) -> SearchStrategy[Shot]:
    return st.builds(lambda target, body: caller.post(kind, target, body), targets, found)
