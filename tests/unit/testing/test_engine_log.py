"""What the scripted engine's log says of a request, and what outlives the engine."""

from pathlib import Path

from penstock.testing.scripted_engine.engine_log import EngineLog, Entry


def test_its_file_has_a_line_when_a_request_begins_and_one_when_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "requests.txt"
    log = EngineLog(1, str(file))
    first, second = Entry("one", {}, b""), Entry("two", {}, b"")
    log.open(first)
    log.open(second)
    log.close(first, "finished")
    assert file.read_text().splitlines() == ["begun one", "begun two", "finished one"]
