"""What a newcomer asks first: the printed line, on real weights, without a temperature."""

import subprocess

import httpx
import msgspec
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell

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


def test_printed_line_is_answered_rightly(cell: Cell) -> None:
    line = curl_line(
        Announcement(
            base_url=cell.base_url,
            account=cell.account,
            key=cell.key,
            model=TEXT_MODEL,
            models=(TEXT_MODEL,),
            state=cell.state,
            metrics_url=None,
            pids={},
            start_seconds=9.4,
        )
    )
    done = subprocess.run(line, shell=True, capture_output=True, check=True, timeout=120)
    answer = msgspec.json.decode(done.stdout)
    assert "Paris" in answer["choices"][0]["message"]["content"]


@pytest.mark.timeout(300)
def test_most_simple_questions_are_answered_rightly_and_always_alike(cell: Cell) -> None:
    with cell.client() as client:
        answers = {question: _answer(client, cell, question) for question in QUESTIONS}
        again = _answer(client, cell, next(iter(QUESTIONS)))
    right = [q for q, word in QUESTIONS.items() if word.lower() in answers[q].lower()]
    print(f"{len(right)} of {len(QUESTIONS)} right: {answers}")
    assert again == next(iter(answers.values()))
    assert len(right) >= RIGHT_MIN


def _answer(client: httpx.Client, cell: Cell, question: str) -> str:
    body = {
        "model": TEXT_MODEL,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 32,
    }
    answer = client.post(f"{cell.openai_url}/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])
