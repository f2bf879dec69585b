"""Which sandbox host gets a new container."""

import pytest

from penstock.errors import InvalidRequest
from penstock.tools.container_ids import is_path, path_of_upload
from penstock.tools.sandbox_hosts import Offer, memory_text, ranked
from penstock.wire.resources.sandbox import SandboxStatus


def offer(url: str, *, warm: int, containers: int = 0, tiers: tuple[int, ...] = (1024,)) -> Offer:
    return Offer(
        url,
        SandboxStatus(
            boot="boot",
            driver="bubblewrap",
            isolation="namespaces",
            is_dev=False,
            memory_tiers_mb=list(tiers),
            containers=containers,
            containers_max=10,
            warm=warm,
        ),
    )


def urls(offers: list[Offer]) -> list[str]:
    return [each.url for each in offers]


def test_most_warm_first_then_most_room() -> None:
    offers = [offer("a", warm=1), offer("b", warm=3, containers=9), offer("c", warm=3)]
    assert urls(ranked(offers, None)) == ["c", "b", "a"]


def test_full_hosts_are_left_out() -> None:
    assert urls(ranked([offer("a", warm=9, containers=10), offer("b", warm=0)], 1024)) == ["b"]
    assert ranked([offer("a", warm=9, containers=10)], 1024) == []


def test_only_hosts_with_the_memory_are_asked() -> None:
    offers = [offer("a", warm=9), offer("b", warm=0, tiers=(1024, 4096))]
    assert urls(ranked(offers, 4096)) == ["b"]
    with pytest.raises(InvalidRequest, match="1g, 4g here"):
        ranked(offers, 2048)


@pytest.mark.parametrize(("memory_mb", "text"), [(1024, "1g"), (65_536, "64g"), (512, "512m")])
def test_memory_is_written_as_clients_write_it(memory_mb: int, text: str) -> None:
    assert memory_text(memory_mb) == text


@pytest.mark.parametrize("path", ["", ".", "..", "a/../b", "/a", "a//b", "a\0", "a\n", "x" * 256])
def test_paths_that_are_never_kept(path: str) -> None:
    assert not is_path(path)


@pytest.mark.parametrize(
    ("name", "path"),
    [("a.csv", "a.csv"), ("../../a.csv", "a.csv"), (r"C:\x\a b.csv", "a b.csv"), ("a/", None)],
)
def test_an_upload_gets_the_last_part_of_its_name(name: str, path: str | None) -> None:
    assert path_of_upload(name) == path
