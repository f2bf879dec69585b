"""fetch: whole files or none, resumed where it was cut, and nothing outside of its folder."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.fleet.weight_sources import (
    LIMITS,
    MEGABYTE,
    Counting,
    Fixed,
    Watch,
    bring,
    contents,
)

from penstock.errors import StoreUnavailable
from penstock.fleet.weights.copied_source import CopiedSource
from penstock.fleet.weights.fetch import FetchLimits, fetch
from penstock.fleet.weights.folder_files import FolderFiles
from penstock.fleet.weights.hub_source import HubSource
from penstock.fleet.weights.weight_files import FetchFailed, FetchLockedOut, FetchStopped
from penstock.fleet.weights.weight_folder import folder_of, is_complete
from penstock.records.model import Weights
from penstock.records.source_file import SourceFile


def test_all_files_arrive_and_the_folder_is_complete(origin: Path, target: Path) -> None:
    watch = Watch()
    bring(CopiedSource(FolderFiles(origin)), target, watch)
    assert contents(target) == contents(origin)
    assert is_complete(target, "/origin")
    assert not is_complete(target, "/other")
    assert watch.heard[0] == (0, 24 * MEGABYTE)
    assert watch.heard[-1] == (24 * MEGABYTE, 24 * MEGABYTE)
    assert watch.heard == sorted(watch.heard)


def test_a_fetch_that_was_cut_goes_on_in_the_middle_of_a_file(origin: Path, target: Path) -> None:
    with pytest.raises(FetchStopped):
        bring(CopiedSource(FolderFiles(origin)), target, Watch(stop_at=12 * MEGABYTE))
    assert not is_complete(target, "/origin")
    assert not contents(target), "a file that is not whole has no name of its own"
    rest = Counting(origin)
    bring(CopiedSource(rest), target)
    assert rest.bytes_read == 12 * MEGABYTE
    assert contents(target) == contents(origin)


def test_what_is_there_is_not_read_again(origin: Path, target: Path) -> None:
    bring(CopiedSource(FolderFiles(origin)), target)
    again = Counting(origin)
    bring(CopiedSource(again), target)
    assert again.bytes_read == 0
    (target / "model-2.safetensors").unlink()
    (target / "tokenizer" / "vocabulary.json").write_bytes(b"short")
    assert not is_complete(target, "/origin")
    bring(CopiedSource(again), target)
    assert again.bytes_read == 4 * MEGABYTE
    assert contents(target) == contents(origin)


def test_files_that_the_source_has_no_longer_are_removed(origin: Path, target: Path) -> None:
    with pytest.raises(FetchStopped):
        bring(CopiedSource(FolderFiles(origin)), target, Watch(stop_at=21 * MEGABYTE))
    assert "model-1.safetensors" in contents(target)
    (origin / "model-1.safetensors").rename(origin / "model.safetensors")
    bring(CopiedSource(FolderFiles(origin)), target)
    assert contents(target) == contents(origin)


@pytest.mark.parametrize(
    "name",
    ["../escape", "/etc/passwd", "a/../../b", "a//b", "a/./b", "", ".", "a\nb", "a\\b", "x" * 201],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, target: Path) -> None:
    with pytest.raises(FetchFailed, match="the source's file"):
        bring(CopiedSource(Fixed(SourceFile("good", 1), SourceFile(name, 1))), target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ((), "has no files"),
        (tuple(SourceFile(str(number), 1) for number in range(11)), "more than 10 files"),
        ((SourceFile("a", 1), SourceFile("a", 2)), "two files of one name"),
        ((SourceFile("a", 1), SourceFile("a/b", 2)), "is below another file"),
        ((SourceFile("a", -1),), "has no size"),
        ((SourceFile("a", 1), SourceFile("b/.c.12.penstock-part", 1)), "itself being fetched"),
    ],
)
def test_what_is_no_set_of_files_is_refused(
    files: tuple[SourceFile, ...], why: str, target: Path
) -> None:
    with pytest.raises(FetchFailed, match=why):
        bring(CopiedSource(Fixed(*files)), target)


def test_links_lead_nowhere_but_inside(origin: Path, target: Path, tmp_path: Path) -> None:
    (origin / "alias").symlink_to("model-2.safetensors")
    bring(CopiedSource(FolderFiles(origin)), target)
    assert contents(target)["alias"] == (origin / "model-2.safetensors").read_bytes()
    assert not (target / "alias").is_symlink()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (origin / "out").symlink_to(secret)
    with pytest.raises(FetchFailed, match="link out of the folder"):
        FolderFiles(origin).list(10)
    (origin / "out").unlink()
    (origin / "folder").symlink_to(tmp_path)
    with pytest.raises(FetchFailed, match="link to a folder"):
        FolderFiles(origin).list(10)


def test_what_is_no_plain_file_is_refused(origin: Path) -> None:
    os.mkfifo(origin / "pipe")
    with pytest.raises(FetchFailed, match="not a plain file"):
        FolderFiles(origin).list(10)
    with pytest.raises(FetchFailed, match="not a folder of this host"):
        FolderFiles(origin / "none").list(10)


def test_a_full_disk_is_noticed_before_anything_is_copied(origin: Path, target: Path) -> None:
    files = Counting(origin)
    with pytest.raises(FetchFailed, match=r"has 0\.0 GB free"):
        bring(CopiedSource(files), target, free=lambda _: 24 * MEGABYTE - 1)
    assert files.bytes_read == 0
    with pytest.raises(FetchStopped):
        bring(CopiedSource(files), target, Watch(stop_at=12 * MEGABYTE))
    # What an earlier fetch has brought takes no more room.
    bring(CopiedSource(files), target, free=lambda _: 12 * MEGABYTE)
    assert is_complete(target, "/origin")


def test_the_size_that_the_recipe_names_must_fit_too(origin: Path, target: Path) -> None:
    with pytest.raises(FetchFailed, match=r"59\.0 GB are needed"):
        fetch(
            Weights("/origin", 59.0),
            target,
            CopiedSource(FolderFiles(origin)),
            LIMITS,
            Watch(),
            lambda _: 10**10,
        )


def test_a_file_that_ends_early_is_not_taken_for_whole(target: Path) -> None:
    class Short(Fixed):
        def read(self, file: SourceFile, start: int, end: int) -> Iterator[bytes]:
            yield b"only this"

    with pytest.raises(FetchFailed, match="has 9 bytes instead of 100"):
        bring(CopiedSource(Short(SourceFile("a", 100))), target)
    assert not is_complete(target, "/origin")


def test_an_outage_of_the_source_is_named(target: Path) -> None:
    def fail() -> None:
        raise StoreUnavailable("The object store does not answer (GenericError).")

    with pytest.raises(FetchFailed, match="the source cannot be read: The object store"):
        bring(CopiedSource(Fixed(SourceFile("a", 100), before=fail)), target)


def test_the_second_of_two_fetchers_waits_and_copies_nothing(target: Path) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_go_on.wait(10)

    def never() -> None:
        raise AssertionError("both have read the source")

    first = threading.Thread(
        target=bring, args=(CopiedSource(Fixed(SourceFile("a", 5), before=hold)), target)
    )
    watch = Watch()
    second = threading.Thread(
        target=bring, args=(CopiedSource(Fixed(SourceFile("a", 5), before=never)), target, watch)
    )
    first.start()
    assert begun.wait(10)
    second.start()
    assert watch.has_waited.wait(10)
    may_go_on.set()
    first.join(10)
    second.join(10)
    assert is_complete(target, "/origin")
    assert not watch.heard


def test_a_fetcher_that_waits_can_be_stopped_and_may_give_up(target: Path) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_go_on.wait(10)

    first = threading.Thread(
        target=bring, args=(CopiedSource(Fixed(SourceFile("a", 5), before=hold)), target)
    )
    first.start()
    assert begun.wait(10)
    watch = Watch(stop_at=0)
    watch.heard.append((0, 0))
    with pytest.raises(FetchStopped):
        bring(CopiedSource(Fixed()), target, watch)
    limits = FetchLimits(lock_seconds_max=0.5)
    with pytest.raises(FetchLockedOut):
        fetch(Weights("/origin", 0.001), target, CopiedSource(Fixed()), limits, Watch())
    may_go_on.set()
    first.join(10)


def test_a_source_that_another_host_has_fetched_is_a_source(
    origin: Path, target: Path, tmp_path: Path
) -> None:
    bring(CopiedSource(FolderFiles(origin)), target)
    second = tmp_path / "second"
    bring(CopiedSource(FolderFiles(target)), second)
    assert contents(second) == contents(origin)
    assert is_complete(second, "/origin")
    full = FetchLimits(files_max=3, spare_bytes=0)
    third = tmp_path / "third"
    fetch(Weights("/origin", 0.001), third, CopiedSource(FolderFiles(target)), full, Watch())
    assert contents(third) == contents(origin), "its own files do not count"


@pytest.mark.parametrize("stop_at", [12 * MEGABYTE, 20 * MEGABYTE])
def test_a_source_that_is_being_fetched_is_refused(
    origin: Path, target: Path, tmp_path: Path, stop_at: int
) -> None:
    with pytest.raises(FetchStopped):
        bring(CopiedSource(FolderFiles(origin)), target, Watch(stop_at))
    second = CopiedSource(FolderFiles(target))
    with pytest.raises(FetchFailed, match="the source is itself being fetched"):
        bring(second, tmp_path / "second")
    # Between two files there is no part of one.
    for part in target.rglob(".*-part"):
        part.unlink()
    (target / "model-1.safetensors").touch()
    with pytest.raises(FetchFailed, match="the source is itself being fetched"):
        bring(second, tmp_path / "second")
    bring(CopiedSource(FolderFiles(origin)), target)
    bring(second, tmp_path / "second")
    assert contents(tmp_path / "second") == contents(origin)


@pytest.mark.parametrize(
    "source",
    ["hf:a/b", "hf:a/b@v1", "s3://a/b", "s3://a-b", "/a/b", "/b", "/b/", "/mnt/ä b", "/mnt/..."],
)
def test_every_source_has_a_plain_folder_of_its_own(source: str) -> None:
    folder = folder_of("/weights", source)
    assert folder.parent == Path("/weights")
    assert folder.name.isascii()
    assert not folder.name.startswith((".", "-"))
    assert folder != folder_of("/weights", f"{source}x")
    assert folder_of("/weights", "/a/b") != folder_of("/weights", "s3://a/b")


def test_hugging_face_needs_its_library_and_says_what_to_install(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(FetchFailed, match="install penstock-inference with its extra"):
        fetch(Weights("hf:a/b", 1.0), target, HubSource("a/b"), LIMITS, Watch())
