"""A keeper that runs flex work tells its prompts as gateways do, and says each three times."""

from tests.unit.signals.speaker_scene import Scene, prompt

from penstock.records.signal import EngineClaim

_CLAIM = EngineClaim("replica", is_healthy=True, own_requests=3, own_tokens=900)


def test_prompts_of_jobs_travel_with_the_engines_and_never_as_a_load() -> None:
    scene = Scene()
    first = scene.open(scene.speaker.say_engines([_CLAIM], [prompt(1)]))
    assert first.engines == [_CLAIM]
    assert first.loads == []
    said = [scene.open(scene.speaker.say_engines([_CLAIM])) for _ in range(3)]
    assert [len(signal.batches) for signal in said] == [1, 1, 0]
