"""Sessions found in traces, generated traffic, and the figures of a run."""

from pathlib import Path
from random import Random

import msgspec

from fleet_simulator.agent_traffic import AgentTraffic, make_traffic
from fleet_simulator.figures import figures_of, moved_flights, percentile
from fleet_simulator.flight import TraceRequest, depart
from fleet_simulator.trace import SimulatedTraceLine, derive_sessions, read_trace


def line(at: float, *blocks: int) -> SimulatedTraceLine:
    length = len(blocks) * 512 - 100
    return SimulatedTraceLine(timestamp=at, input_length=length, output_length=9, hash_ids=blocks)


def test_requests_that_extend_a_prefix_are_turns_of_one_session() -> None:
    found = derive_sessions([line(0, 1, 2), line(5, 1, 2, 3), line(6, 7, 8), line(9, 1, 2, 3, 4)])
    assert [request.session for request in found] == [0, 0, 1, 0]
    assert [request.turn for request in found] == [0, 1, 0, 2]
    assert [request.earlier_tokens for request in found] == [0, 1024, 0, 1536]


def test_common_head_makes_no_session() -> None:
    found = derive_sessions([line(at, 1, 100 + at) for at in range(30)])
    assert len({request.session for request in found}) == 30


def test_trace_is_read_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(one) for one in (line(2000, 3), line(1000, 4))))
    assert [request.at for request in read_trace(path)] == [1.0, 2.0]


def test_generated_traffic_is_the_same_for_the_same_seed() -> None:
    traffic = AgentTraffic(seconds=60.0)
    assert make_traffic(traffic, seed=3) == make_traffic(traffic, seed=3)
    assert make_traffic(traffic, seed=3) != make_traffic(traffic, seed=4)


def test_generated_sessions_grow_by_appending() -> None:
    last: dict[int, TraceRequest] = {}
    requests = make_traffic(AgentTraffic(seconds=120.0), seed=1)
    for request in requests:
        before = last.get(request.session)
        if before is None:
            assert request.turn == 0
        else:
            full = before.blocks[: before.prompt_tokens // 512]
            assert request.blocks[: len(full)] == full
            assert request.turn == before.turn + 1
            assert request.at > before.at
        assert len(request.blocks) == -(-request.prompt_tokens // 512)
        last[request.session] = request
    assert len(requests) > 2 * len(last)


def test_generated_sessions_share_the_openings_of_their_applications() -> None:
    requests = make_traffic(AgentTraffic(seconds=120.0, applications=3), seed=1)
    openings = {request.blocks[0] for request in requests if not request.turn}
    assert len(openings) <= 6


def test_percentile_lies_between_its_neighbours() -> None:
    assert percentile([1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 4.0], 0.75) == 3.0
    assert percentile([], 0.5) == 0.0


def test_move_is_a_turn_away_from_the_longest_known_prefix() -> None:
    lines = [line(0, 1, 2, 9), line(1, 1, 2, 3, 8), line(2, 1, 2, 3, 4, 7)]
    flights = depart(derive_sessions(lines), speed_up=1.0, jitter_seconds=0.0, random=Random(1))
    for flight, replica in zip(flights, (0, 1, 1), strict=True):
        flight.replica = replica
    assert moved_flights(flights) == {1}


def test_request_without_a_first_token_counts_as_an_hour() -> None:
    flights = depart(
        derive_sessions([line(0, 1, 2)]), speed_up=1.0, jitter_seconds=0.0, random=Random(1)
    )
    figures = figures_of(flights, 0.0)
    assert figures.ttft_p95 == 3600.0
    assert figures.unfinished == 1
