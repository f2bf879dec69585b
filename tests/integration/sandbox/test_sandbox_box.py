"""Containers run code, keep its state, and hold it."""

import time

import pytest
from tests.integration.sandbox.conftest import StartBox
from tests.integration.sandbox.hostile_code import BOMBS, ESCAPES

from penstock.sandbox.box import Box, BoxLost
from penstock.sandbox.kernel_events import Failed, KernelEvent, Output, Picture, Shown


async def _run(box: Box, code: str, seconds: float = 20.0) -> list[KernelEvent]:
    return [event async for event in box.execute(code, seconds)]


def _text(events: list[KernelEvent]) -> str:
    texts = [event.text for event in events if isinstance(event, Output | Shown | Failed)]
    return "".join(texts)


async def test_state_stays_from_call_to_call(start_box: StartBox) -> None:
    box = await start_box()
    assert await _run(box, "x = 41\nprint('hello')") == [Output("stdout", "hello\n")]
    assert await _run(box, "x + 1") == [Shown("text/plain", "42")]
    assert _text(
        await _run(box, "import subprocess; subprocess.run(['echo', 'child'])")
    ).startswith("child\n")


async def test_an_exception_says_where_it_was(start_box: StartBox) -> None:
    box = await start_box()
    [failed] = await _run(box, "def f():\n    return 1 / 0\nf()")
    assert isinstance(failed, Failed)
    assert failed.name == "ZeroDivisionError"
    assert "line 2, in f" in failed.text
    assert "kernel.py" not in failed.text


async def test_what_was_printed_comes_before_the_value(start_box: StartBox) -> None:
    box = await start_box()
    events = await _run(box, "print('first')\n'second'")
    assert [type(event) for event in events] == [Output, Shown]


async def test_a_call_that_takes_too_long_is_interrupted_and_keeps_its_state(
    start_box: StartBox,
) -> None:
    box = await start_box()
    await _run(box, "x = 1")
    [failed] = await _run(box, "while True: x += 1", 0.5)
    assert isinstance(failed, Failed)
    assert failed.name == "KeyboardInterrupt"
    assert _text(await _run(box, "x > 1")) == "True"


async def test_files_go_in_and_out(start_box: StartBox) -> None:
    box = await start_box()
    data = bytes(range(256)) * 8192
    await box.put("folder/in.bin", data)
    await _run(box, "b = open('folder/in.bin', 'rb').read(); open('out.bin', 'wb').write(b[::-1])")
    assert {entry.path: entry.bytes for entry in await box.files()} == {
        "folder/in.bin": len(data),
        "out.bin": len(data),
    }
    assert await box.get("out.bin", len(data)) == data[::-1]
    with pytest.raises(OSError, match="No such file"):
        await box.get("missing", 10)
    for path in ("/etc/passwd", "../x", "a/../../x", "", "x\n"):
        with pytest.raises(ValueError, match="path"):
            await box.get(path, 10)


async def test_links_show_nothing_of_the_host(start_box: StartBox) -> None:
    box = await start_box()
    await _run(box, "import os; os.symlink('/proc/self/environ', 'link')")
    assert await box.files() == []


async def test_pictures_come_in_parts(start_box: StartBox) -> None:
    box = await start_box()
    code = "class P:\n    def _repr_png_(self): return b'p' * 10**6\nP()"
    parts = [event for event in await _run(box, code) if isinstance(event, Picture)]
    assert b"".join(part.data for part in parts) == b"p" * 10**6
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]


async def test_hostile_code_does_not_leave_its_container(start_box: StartBox) -> None:
    box = await start_box()
    for name, code in ESCAPES.items():
        text = _text(await _run(box, code))
        assert "ESCAPED" not in text, (name, text)
    assert _text(await _run(box, "6 * 7")) == "42"


@pytest.mark.timeout(240)
async def test_a_bomb_harms_its_own_container_only(start_box: StartBox) -> None:
    neighbour = await start_box()
    for name, code in BOMBS.items():
        box = await start_box()
        try:
            await _run(box, code, 2.0)
        except BoxLost:
            pass
        began = time.monotonic()
        assert _text(await _run(neighbour, "6 * 7")) == "42", name
        assert time.monotonic() - began < 2.0, name


async def test_containers_see_nothing_of_each_other(start_box: StartBox) -> None:
    first, second = await start_box(), await start_box()
    await _run(
        first, "open('/mnt/data/secret', 'w').write('s'); open('/tmp/secret', 'w').write('s')"
    )
    listed = "import os; print(os.listdir('/mnt/data'), os.listdir('/tmp'), os.getuid())"
    seen = [_text(await _run(box, listed)) for box in (first, second)]
    assert "secret" in seen[0]
    assert "secret" not in seen[1]
    assert seen[0].split()[-1] != seen[1].split()[-1]


async def test_nothing_is_left_of_a_container(start_box: StartBox) -> None:
    box = await start_box()
    events = await _run(box, "import subprocess; p = subprocess.Popen(['sleep', '600']); p.pid")
    assert _text(events).isdigit()
