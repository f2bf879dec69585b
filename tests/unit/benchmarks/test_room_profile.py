"""To which room the profile gives a sample."""

from room_profile import SYSTEM_CALLS, Profile, fold, rows_of, table

_COMMAND = "main (penstock/cli/main.py:12);run_gateway (penstock/ingress/server.py:45)"
_LOOP = f"{_COMMAND};Runner.run (asyncio/runners.py:118);run_until_complete (loop.c:35886)"
_READ = "uv__io_poll (linux.c:1409);uv__read (stream.c:1143)"
_OURS = (
    "Door.serve (penstock/ingress/inference/inference_endpoint.py:109);"
    "Router.pick (penstock/routing/router.py:70)"
)


def test_a_sample_belongs_to_the_innermost_frame_of_ours() -> None:
    assert rows_of(f"{_LOOP};{_READ};{_OURS};decode (msgspec/_core.c:9)") == ["routing"]
    assert rows_of(f"{_LOOP};{_READ};load (penstock/config.py:9)") == ["config"]


def test_a_compiled_frame_belongs_to_the_room_of_its_module() -> None:
    library = "(penstock_native__mypyc.cpython-311-x86_64-linux-gnu.so)"
    picked = f"{_LOOP};{_READ};CPyPy_hot___Door___serve {library};CPyDef_pick___pick {library}"
    assert rows_of(f"{picked};PyDict_GetItem (dictobject.c:9)") == ["routing"]
    # Two rooms have a module of this name, so that the C function has the room's too.
    assert rows_of(f"{_LOOP};{_READ};CPyDef_admission___estimate___tokens {library}") == [
        "admission"
    ]


def test_what_called_the_event_loop_is_no_room() -> None:
    assert rows_of(f"{_LOOP};{_READ};Py_DECREF (object.h:538)") == ["no room: uvloop"]
    step = "task_step (_asynciomodule.c:3000)"
    assert rows_of(f"{_LOOP};{step}") == ["no room: Python and its library"]


def test_system_calls_are_counted_where_they_are_made_and_in_all() -> None:
    assert rows_of(f"{_LOOP};{_READ};read (libc.so.6)") == ["no room: system calls", SYSTEM_CALLS]
    assert rows_of(f"{_LOOP};{_OURS};__send (libc.so.6);0x7f00 (libc.so.6)") == [
        "routing",
        SYSTEM_CALLS,
    ]
    assert rows_of(f"{_LOOP};{_OURS};malloc (libc.so.6)") == ["routing"]


def test_a_thread_that_only_waits_counts_for_nothing() -> None:
    waiting = "thread_run (libpython3.11.so.1.0);BaseServer.serve_forever (socketserver.py:233)"
    counts, total = fold([f"{waiting};poll (libc.so.6) 1900", f"{_LOOP};{_OURS} 30"])
    assert (dict(counts), total) == ({"routing": 30}, 30)


def test_the_table_has_rooms_first_and_the_sum_of_all() -> None:
    rows = {"no room: uvloop": 6.0, "wire": 1.0, "routing": 3.0, SYSTEM_CALLS: 2.0}
    profile = Profile(total=10.0, rows=rows, samples=500, rate_kept=0.95)
    lines = table({"small": profile}).splitlines()
    assert [line.split("|")[1].strip() for line in lines] == [
        *("", "---", "routing", "wire", "no room: uvloop", "**all**", SYSTEM_CALLS, "samples"),
        "rate while looked at, of the usual",
    ]
