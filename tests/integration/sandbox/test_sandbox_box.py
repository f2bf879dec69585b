"""Containers run code, keep its state, and hold it."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest
from tests.integration.sandbox.conftest import DATA_BYTES, LIMITS, StartBox
from tests.integration.sandbox.run_code import run_code, text_of

from penstock.sandbox.box import BoxLost
from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.driver import BoxSpec
from penstock.sandbox.kernel_events import Picture
from penstock.wire.resources.sandbox import Failed, Output, ShownValue

pytestmark = pytest.mark.usefixtures("at_full_length")


async def test_state_stays_from_call_to_call(start_box: StartBox) -> None:
    box = await start_box()
    assert await run_code(box, "x = 41\nprint('hello')") == [Output("stdout", "hello\n")]
    assert await run_code(box, "x + 1") == [ShownValue("text/plain", "42")]
    assert text_of(
        await run_code(box, "import subprocess; subprocess.run(['echo', 'child'])")
    ).startswith("child\n")


async def test_an_exception_says_where_it_was(start_box: StartBox) -> None:
    box = await start_box()
    [failed] = await run_code(box, "def f():\n    return 1 / 0\nf()")
    assert isinstance(failed, Failed)
    assert failed.name == "ZeroDivisionError"
    assert "line 2, in f" in failed.text
    assert "kernel.py" not in failed.text


async def test_what_was_printed_comes_before_the_value(start_box: StartBox) -> None:
    box = await start_box()
    events = await run_code(box, "print('first')\n'second'")
    assert [type(event) for event in events] == [Output, ShownValue]


async def test_a_call_that_takes_too_long_is_interrupted_and_keeps_its_state(
    start_box: StartBox,
) -> None:
    box = await start_box()
    await run_code(box, "x = 1")
    [failed] = await run_code(box, "while True: x += 1", 0.5)
    assert isinstance(failed, Failed)
    assert failed.name == "KeyboardInterrupt"
    assert text_of(await run_code(box, "x > 1")) == "True"


async def test_files_go_in_and_out(start_box: StartBox) -> None:
    box = await start_box()
    data = bytes(range(256)) * 8192
    await box.put("folder/in.bin", data)
    await run_code(
        box, "b = open('folder/in.bin', 'rb').read(); open('out.bin', 'wb').write(b[::-1])"
    )
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
    await run_code(box, "import os; os.symlink('/proc/self/environ', 'link')")
    assert await box.files() == []


async def test_pictures_come_in_parts(start_box: StartBox) -> None:
    box = await start_box()
    code = "class P:\n    def _repr_png_(self): return b'p' * 10**6\nP()"
    parts = [event for event in await run_code(box, code) if isinstance(event, Picture)]
    assert b"".join(part.data for part in parts) == b"p" * 10**6
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]


async def test_containers_see_nothing_of_each_other(start_box: StartBox) -> None:
    first, second = await start_box(), await start_box()
    await run_code(
        first, "open('/mnt/data/secret', 'w').write('s'); open('/tmp/secret', 'w').write('s')"
    )
    listed = "import os; print(os.listdir('/mnt/data'), os.listdir('/tmp'), os.getuid())"
    seen = [text_of(await run_code(box, listed)) for box in (first, second)]
    assert "secret" in seen[0]
    assert "secret" not in seen[1]
    assert seen[0].split()[-1] != seen[1].split()[-1]


async def test_output_is_whole_text(start_box: StartBox) -> None:
    """Characters lie across the kernel's reads of 64 KiB, and some are no text for JSON."""
    box = await start_box()
    assert text_of(await run_code(box, "print('x' + 'é' * 100_000)")) == f"x{'é' * 100_000}\n"
    assert (
        text_of(await run_code(box, "import os; n = os.write(1, b'a\\xff\\xc3')"))
        == "a\ufffd\ufffd"
    )
    half = "class Half:\n    def __repr__(self): return '\\ud800!'\nHalf()"
    assert text_of(await run_code(box, half)) == "?!"
    [failed] = await run_code(box, "raise type('E' * 300, (Exception,), {})('\\ud800')")
    assert isinstance(failed, Failed)
    assert failed.name == "E" * 200


async def test_many_lines_are_few_events(start_box: StartBox) -> None:
    box = await start_box()
    events = await run_code(box, "for n in range(20_000): print(n)")
    assert text_of(events) == "".join(f"{n}\n" for n in range(20_000))
    assert len(events) < 2000


async def test_a_fork_of_the_code_answers_nothing(start_box: StartBox) -> None:
    box = await start_box()
    await run_code(box, "import os\nif os.fork(): os.wait()\nprint('one of two')")
    assert text_of(await run_code(box, "6 * 7")) == "42"


async def test_processes_of_python_work_together(start_box: StartBox) -> None:
    box = await start_box()
    code = """
import multiprocessing
with multiprocessing.get_context('fork').Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
"""
    assert text_of(await run_code(box, code)) == "[1, 2]\n"


async def test_a_background_process_that_prints_ends_no_call(start_box: StartBox) -> None:
    box = await start_box()
    loop = "while :; do echo x; sleep 0.01; done"
    code = f"import subprocess; p = subprocess.Popen('{loop}', shell=True)"
    await run_code(box, code)
    await asyncio.sleep(0.1)
    assert await box.files() == []
    assert "done\n" in text_of(await run_code(box, "p.kill(); print('done')"))


async def test_only_regular_files_are_read_and_written(start_box: StartBox) -> None:
    box = await start_box()
    code = "import os; os.symlink('/dev/zero', 'zero'); os.mkdir('folder'); os.mkfifo('pipe')"
    # The list of calls has none that makes a named pipe.
    assert "Function not implemented" in text_of(await run_code(box, code))
    for name in ("zero", "folder"):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            await box.get(name, 10)
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            await box.put(name, b"x")
    assert await box.files() == []


async def test_strange_names_and_times_leave_the_listing_whole(start_box: StartBox) -> None:
    box = await start_box()
    code = """
import os
for name in (b'\\xff', b'line\\n', b'good'):
    os.close(os.open(name, os.O_CREAT))
os.utime('good', ns=(2**62, -5))
for n in range(1200):
    open(f'z{n:04}' + 'é' * 100, 'w').close()
"""
    assert text_of(await run_code(box, code)) == ""
    entries = await box.files()
    assert (entries[0].path, entries[0].mtime) == ("good", 0)
    assert 100 < len(entries) <= 1000


async def test_a_get_is_bounded_by_the_host(start_box: StartBox) -> None:
    box = await start_box()
    await box.put("a", b"x" * 1_000_000)
    assert await box.get("a", 300_000) == b"x" * 300_000
    assert await box.get("a", 0) == b""


async def test_end_during_a_call_loses_the_call(driver: Bubblewrap, worker_number: int) -> None:
    started = await driver.start(
        BoxSpec(f"test-{worker_number}-e", 262_000 + worker_number, LIMITS, DATA_BYTES)
    )

    async def call() -> None:
        with pytest.raises(BoxLost, match="has ended"):
            await run_code(started.box, "import time; time.sleep(60)")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call())
        await asyncio.sleep(0.1)
        assert await started.end()
    with pytest.raises(BoxLost, match="not ended"):
        await started.box.files()


async def test_a_start_that_fails_leaves_nothing(worker_number: int) -> None:
    groups = ControlGroups()
    with tempfile.TemporaryDirectory() as folder:
        driver = Bubblewrap(Path(folder) / "none", groups)
        if "no Python" not in driver.problem():
            pytest.skip(f"no containers here: {driver.problem()}")
        spec = BoxSpec(f"test-{worker_number}-f", 262_100 + worker_number, LIMITS, DATA_BYTES)
        for _ in range(2):
            with pytest.raises(BoxLost, match="has ended"):
                await driver.start(spec)


def test_an_image_that_containers_cannot_enter_is_a_problem(driver: Bubblewrap) -> None:
    assert driver.problem() == ""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bin").mkdir()
        (Path(folder) / "bin" / "python3").touch()
        # A new temporary folder is its owner's only.
        assert "cannot enter" in Bubblewrap(Path(folder), ControlGroups()).problem()


async def test_nothing_is_left_of_a_container(driver: Bubblewrap, worker_number: int) -> None:
    uid = 262_200 + worker_number
    spec = BoxSpec(f"test-{worker_number}-n", uid, LIMITS, DATA_BYTES)
    started = await driver.start(spec)
    # A process of its own session, whose parent has ended.
    code = "import subprocess; subprocess.Popen(['setsid', '-f', 'sleep', '600']).wait()"
    assert text_of(await run_code(started.box, code)) == "0"
    assert len(_processes_of(uid)) > 3
    assert await started.end()
    assert _processes_of(uid) == []


def _processes_of(uid: int) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_uid == uid:
                found.append(folder.name)
    return found
