"""Placement: best fit, spread, never over capacity, and a reason for what is left."""

import time
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.fleet.cell.place import OpenHost, WantedPlaces, place
from penstock.records.deployment import HostChoice

ANY = HostChoice()


def host(name: str, free: int = 8, **labels: str) -> OpenHost:
    return OpenHost(f"keeper-{name}", name, labels, free)


def test_the_fullest_host_that_fits_is_taken() -> None:
    hosts = [host("a", 8), host("b", 3), host("c", 2)]
    [first], reasons = place([WantedPlaces("d", 1, 1, 2, ANY)], hosts)
    assert (first.hosts, reasons) == (("c",), {})


def test_replicas_of_a_deployment_are_spread_over_hosts() -> None:
    hosts = [host("a", 8), host("b", 8)]
    placed, _ = place([WantedPlaces("d", 1, 4, 2, ANY)], hosts)
    assert Counter(name for each in placed for name in each.hosts) == {"a": 2, "b": 2}
    filled, _ = place([WantedPlaces("d", 1, 4, 2, ANY, is_spread=False)], hosts)
    assert Counter(name for each in filled for name in each.hosts) == {"a": 4}


def test_what_already_runs_counts_for_the_spread() -> None:
    hosts = [OpenHost("ka", "a", {}, 6, {"d": 1}), host("b", 8)]
    [placed], _ = place([WantedPlaces("d", 1, 1, 2, ANY)], hosts)
    assert placed.hosts == ("b",)


def test_labels_and_names_choose_hosts() -> None:
    hosts = [host("a", gpu="h100"), host("b", gpu="h200"), host("c", gpu="h200")]
    choice = HostChoice(labels={"gpu": "h200"}, names=("c", "a"))
    [placed], _ = place([WantedPlaces("d", 1, 1, 8, choice)], hosts)
    assert placed.hosts == ("c",)


def test_what_finds_no_room_says_why() -> None:
    reasons = place([WantedPlaces("d", 1, 1, 8, ANY)], [host("a", 4), host("b", 2)])[1]
    assert reasons == {"d": "needs 8 GPUs on one host; most free: 4 on a"}
    labels = HostChoice(labels={"gpu": "b200"})
    reasons = place([WantedPlaces("d", 1, 1, 8, labels)], [host("a")])[1]
    assert reasons == {"d": "none of 1 hosts that are ready has the labels or names it asks for"}
    assert place([WantedPlaces("d", 1, 1, 0, ANY)], [])[1] == {
        "d": "no host is ready for deployments"
    }


def test_replicas_without_gpus_go_where_fewest_are() -> None:
    hosts = [OpenHost("ka", "a", {}, 0, {"x": 3}), OpenHost("kb", "b", {}, 0, {"x": 1})]
    [placed], _ = place([WantedPlaces("d", 1, 1, 0, ANY)], hosts)
    assert placed.hosts == ("b",)


def test_a_replica_over_several_hosts_gets_all_of_them_or_none() -> None:
    gang = WantedPlaces("d", 1, 2, 8, ANY, nodes=2)
    small = WantedPlaces("e", 1, 1, 4, ANY)
    placed, reasons = place([small, gang], [host("a"), host("b"), host("c")])
    # The large one is placed first, and the small one finds what is left.
    assert [(each.deployment, each.hosts) for each in placed] == [
        ("d", ("a", "b")),
        ("e", ("c",)),
    ]
    assert reasons == {
        "d": "needs 8 GPUs on each of 2 hosts; 1 of 3 that reach each other have them"
    }


def test_hosts_that_nobody_else_reaches_get_no_parts() -> None:
    hosts = [
        msgspec.structs.replace(host(name), address=address)
        for name, address in (("a", "127.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3"))
    ]
    [placed], _ = place([WantedPlaces("d", 1, 1, 8, ANY, nodes=2)], hosts)
    assert placed.hosts == ("b", "c")


def test_a_pool_takes_what_is_meant_for_it_and_nothing_else() -> None:
    pool = OpenHost("pool-h200", "h200", {}, 0, pool="h200")
    wanted = WantedPlaces("d", 1, 3, 8, ANY, nodes=2, pool="h200")
    placed, reasons = place([wanted], [host("a"), pool])
    # It has no GPUs to count, and knows its nodes itself.
    assert [each.keepers for each in placed] == [("pool-h200",)] * 3
    assert reasons == {}
    assert place([WantedPlaces("d", 1, 1, 0, ANY)], [pool])[0] == []
    other = msgspec.structs.replace(wanted, pool="b200")
    assert place([other], [pool])[1] == {"d": "no keeper of the pool b200 is ready"}


_hosts = st.lists(
    st.builds(
        OpenHost,
        keeper=st.uuids().map(str),
        name=st.sampled_from([f"h{n}" for n in range(6)]),
        labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        free_gpus=st.integers(0, 16),
    ),
    max_size=6,
    unique_by=lambda each: each.keeper,
)
_wanted = st.lists(
    st.builds(
        WantedPlaces,
        deployment=st.sampled_from([f"d{n}" for n in range(5)]),
        launch=st.integers(1, 3),
        count=st.integers(0, 8),
        gpus=st.integers(0, 8),
        hosts=st.builds(
            HostChoice, labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
        ),
        is_spread=st.booleans(),
        nodes=st.integers(1, 3),
    ),
    max_size=5,
    unique_by=lambda each: each.deployment,
)


@settings(max_examples=100)
@given(_wanted, _hosts)
def test_no_host_is_over_its_room_and_all_is_placed_or_has_a_reason(
    wanted: list[WantedPlaces], hosts: list[OpenHost]
) -> None:
    placed, reasons = place(wanted, hosts)
    taken: Counter[str] = Counter()
    for one in placed:
        taken.update(dict.fromkeys(one.keepers, one.gpus))
    by_keeper = {each.keeper: each for each in hosts}
    assert all(count <= by_keeper[keeper].free_gpus for keeper, count in taken.items())
    counts = Counter(each.deployment for each in placed)
    for each in wanted:
        assert counts[each.deployment] == each.count or reasons[each.deployment]
        for one in placed:
            if one.deployment == each.deployment:
                # All of its hosts, or none.
                assert len(set(one.keepers)) == each.nodes
                for keeper in one.keepers:
                    labels = by_keeper[keeper].labels
                    assert all(labels.get(k) == v for k, v in each.hosts.labels.items())
    # What is left out would fit nowhere: a whole replica finds too few hosts with so much left.
    for each in wanted:
        if each.deployment in reasons and not each.hosts.labels:
            left = [h.free_gpus - taken[h.keeper] for h in hosts]
            assert sum(free >= each.gpus for free in left) < each.nodes


def test_two_hundred_replicas_on_fifty_hosts_take_little_time() -> None:
    hosts = [host(f"gpu-{n}", 8) for n in range(50)]
    wanted = [WantedPlaces(f"d{n}", 1, 4, 2, ANY) for n in range(50)]
    best = min(_cpu_of(wanted, hosts) for _ in range(5))
    placed, reasons = place(wanted, hosts)
    assert (len(placed), reasons) == (200, {})
    assert best <= 0.05


def _cpu_of(wanted: list[WantedPlaces], hosts: list[OpenHost]) -> float:
    began = time.process_time()
    place(wanted, hosts)
    return time.process_time() - began
