"""A job's place in the engine's own line goes up; what is wanted now says nothing."""

import json

import pytest
from msgspec import Raw
from tests.unit.engine.engine_line import make_request

from penstock.catalogue import load_catalogue
from penstock.catalogue.settings import CatalogueSettings
from penstock.engine.dialects.vllm import request_body
from penstock.records.model import Recipe

_BODY = b'{"messages":[{"role":"user","content":"hi"}],"priority":-5}'


@pytest.mark.parametrize("priority", [0, 11])
def test_only_a_jobs_priority_goes_up_and_never_the_callers(priority: int) -> None:
    request = make_request(body=_BODY, engine_priority=priority)
    sent = json.loads(b"".join(request_body(request, Raw(b'"served"'))))
    assert sent.get("priority", 0) == priority
    assert ("priority" in sent) is bool(priority)


def test_a_recipe_tells_whether_its_engine_keeps_a_line_by_priority() -> None:
    assert Recipe(("vllm", "serve", "--scheduling-policy", "priority")).has_priority
    assert Recipe(("vllm", "serve", "--scheduling-policy=priority")).has_priority
    assert not Recipe(("vllm", "serve", "--scheduling-policy", "fcfs")).has_priority
    assert not Recipe(("vllm", "serve")).has_priority


def test_every_recipe_of_ours_starts_an_engine_that_lets_live_requests_go_first() -> None:
    models = load_catalogue(CatalogueSettings()).models
    assert models
    assert all(model.recipe.has_priority for model in models)
