"""What commands write as JSON has fields, whatever class it is made of."""

import msgspec

from penstock.cli.bench.sample import Sample
from penstock.cli.output import write_json
from penstock.records.usage import Usage


def test_sample_of_a_bench_is_written_with_the_tokens_it_counted() -> None:
    written = msgspec.json.decode(write_json(Sample(0.0, "ok", 1.0, usage=Usage(1, 2, 3))))
    counts = {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 3}
    assert written["usage"] == counts
