"""What the settings refuse, and what they make the planner want."""

import msgspec
import pytest

from penstock.catalogue import Catalogue, CatalogueError
from penstock.errors import UnknownModel
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.fleet.wants import check_recipes, limits_of, wants_of
from penstock.records.model import Family, Model, ModelId, Recipe

_RECIPE = Recipe(("serve", "{port}"), served_name="tiny", slots_live=8, start_seconds_max=77)
_CATALOGUE = Catalogue(
    [
        Model(ModelId("@cf/a/tiny"), Family.OPENAI, 8192, _RECIPE, aliases=("tiny",)),
        Model(ModelId("@cf/a/home"), Family.OPENAI, 8192, Recipe(("{engine_home}/serve",))),
        Model(ModelId("@cf/a/wide"), Family.OPENAI, 8192, Recipe(("serve", "{port}"), hosts=2)),
    ]
)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"model": "m", "provider": "attach"}, "needs a url"),
        ({"model": "m", "provider": "attach", "url": "10.0.0.7:8000"}, "needs a url"),
        ({"model": "m", "provider": "attach", "url": "http://:8000"}, "needs a url"),
        ({"model": "m", "url": "http://a"}, 'url is for provider = "attach"'),
        ({"model": "m", "provider": "attach", "url": "http://a", "count": 2}, "one replica"),
        ({"model": "m", "count": -1}, "count"),
        ({"model": "m", "provider": "ray"}, "provider"),
        ({"model": "m", "copies": 2}, "copies"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_reason(entry: dict[str, object], says: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=says):
        msgspec.convert(entry, WantedReplicas)


def test_a_port_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="port_first"):
        msgspec.convert({"port_first": 9000, "port_last": 8000}, FleetSettings)


@pytest.mark.parametrize(
    "others",
    [
        {"replicas": [{"model": "m"}]},
        {"obeys": "deployments"},
        {"obeys": "deployments", "pool": "p", "pod_template": "pod.yaml"},
    ],
)
def test_only_attached_servers_are_drained_when_their_keeper_stops(
    others: dict[str, object],
) -> None:
    attached = {"replicas": [{"model": "m", "provider": "attach", "url": "http://a"}]}
    assert msgspec.convert({"drain_at_stop": True, **attached}, FleetSettings).drain_at_stop
    with pytest.raises(msgspec.ValidationError, match="all attached"):
        msgspec.convert({"drain_at_stop": True, **others}, FleetSettings)


def test_aliases_and_ids_of_one_model_add_up() -> None:
    replicas = (WantedReplicas("tiny"), WantedReplicas("@cf/a/tiny", count=2))
    [want] = wants_of(FleetSettings(replicas=replicas), _CATALOGUE)
    assert (want.model, want.count) == ("@cf/a/tiny", 3)
    assert (want.slots_live, want.served_name, want.start_seconds_max) == (8, "tiny", 77.0)


def test_each_attached_server_is_a_want_of_its_own_without_a_time_limit() -> None:
    urls = ("http://a:1/", "http://b:1")
    replicas = tuple(
        WantedReplicas("tiny", provider="attach", url=url, slots_live=3) for url in urls
    )
    wants = wants_of(FleetSettings(replicas=replicas), _CATALOGUE)
    assert [want.url for want in wants] == ["http://a:1", "http://b:1"]
    assert [want.slots_live for want in wants] == [3, 3]
    assert {want.start_seconds_max for want in wants} == {None}


def test_a_model_that_is_not_in_the_catalogue_is_refused() -> None:
    with pytest.raises(UnknownModel):
        wants_of(FleetSettings(replicas=(WantedReplicas("huge"),)), _CATALOGUE)


def test_a_recipe_that_lacks_the_engine_home_is_refused_before_anything_runs() -> None:
    wanted = FleetSettings(replicas=(WantedReplicas("@cf/a/home"),))
    with pytest.raises(CatalogueError, match="engine_home"):
        check_recipes(wanted, wants_of(wanted, _CATALOGUE))
    with_home = msgspec.structs.replace(wanted, engine_home="/opt/engine")
    check_recipes(with_home, wants_of(with_home, _CATALOGUE))


def test_a_replica_over_several_hosts_cannot_stand_in_one_hosts_settings() -> None:
    wanted = FleetSettings(replicas=(WantedReplicas("@cf/a/wide"),))
    with pytest.raises(CatalogueError, match="runs on 2 hosts") as caught:
        check_recipes(wanted, wants_of(wanted, _CATALOGUE))
    assert "penstock deploy apply" in caught.value.advice


def test_the_planner_gets_the_limits_of_the_settings() -> None:
    limits = limits_of(FleetSettings(restart_seconds_max=7.0, drain_seconds=9.0))
    assert (limits.restart_seconds_max, limits.drain_seconds) == (7.0, 9.0)
