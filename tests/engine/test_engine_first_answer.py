"""What a newcomer asks first: the printed line, on real weights, without a temperature."""

import subprocess
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell, running_up

from penstock.cli.up.announcement import Announcement, curl_line

# Asked as they stand, and the word that a right answer has.
QUESTIONS = {
    "What is the capital of Japan?": "Tokyo",
    "What is the capital of Germany?": "Berlin",
    "What is the capital of England?": "London",
    "What is the capital of Italy?": "Rome",
    "What colour is the sky on a clear day?": "blue",
    "How many days are there in a week?": "7",
    "What is the opposite of hot?": "cold",
    "What gas do plants take in?": "carbon dioxide",
    "Who wrote Romeo and Juliet?": "Shakespeare",
    "What is the chemical formula of water?": "H2O",
}
RIGHT_MIN = 8


# The suite's own cell is one start; at full length two more are made.
FURTHER_STARTS = 2


@pytest.mark.timeout(300)
def test_printed_line_and_simple_questions_are_answered_rightly_and_always_alike(
    cell: Cell,
) -> None:
    _check_first_answers(cell)


@pytest.mark.timeout(1200)
def test_answers_are_as_right_after_every_start(tmp_path: Path, full: bool) -> None:
    if not full:
        pytest.skip("each start takes a minute: `make nightly`, or --full")
    for number in range(FURTHER_STARTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with running_up(folder, "--model", "smollm2") as cell:
            _check_first_answers(cell)


def _check_first_answers(cell: Cell) -> None:
    assert "Paris" in _answer_to_printed_line(cell)
    with cell.client() as client:
        answers = {question: _answer(client, cell, question) for question in QUESTIONS}
        again = _answer(client, cell, next(iter(QUESTIONS)))
    right = [q for q, word in QUESTIONS.items() if word.lower() in answers[q].lower()]
    print(f"{len(right)} of {len(QUESTIONS)} right: {answers}")
    assert again == next(iter(answers.values()))
    assert len(right) >= RIGHT_MIN


def _answer_to_printed_line(cell: Cell) -> str:
    line = curl_line(
        Announcement(
            base_url=cell.base_url,
            account=cell.account,
            key=cell.key,
            model=TEXT_MODEL,
            models=(TEXT_MODEL,),
            state=cell.state,
            metrics_url=None,
            console_url=None,
            has_operator_key=False,
            pids={},
            start_seconds=9.4,
        )
    )
    done = subprocess.run(line, shell=True, capture_output=True, check=True, timeout=120)
    return str(msgspec.json.decode(done.stdout)["choices"][0]["message"]["content"])


def _answer(client: httpx.Client, cell: Cell, question: str) -> str:
    body = {
        "model": TEXT_MODEL,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 32,
    }
    answer = client.post(f"{cell.openai_url}/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])
