"""A person talks to a model at the playground, by keyboard, beside a whole `penstock up`."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli_run import run_json
from tests.acceptance.client_cell import KIMI, ClientCell
from tests.acceptance.console.axe import Look
from tests.acceptance.console.console_cell import ConsoleReader
from tests.acceptance.site_browser import Browser

_TOOLS = '[{"type": "function", "function": {"name": "read_file", "parameters": {}}}]'
_CALL = '@script {"calls": [["read_file", "{\\"path\\": \\"README.md\\"}"]]}'
# Ten seconds of words.
_SLOW = '@script {"tokens": 200, "interval": 0.05}'
# One red pixel.
_PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
        "0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
# Puts a file where the picker of files would.
_CHOOSE = """(() => {
    const bytes = Uint8Array.from(atob(%s), each => each.charCodeAt(0));
    const chosen = new DataTransfer();
    chosen.items.add(new File([bytes], "pixel.png", {type: "image/png"}));
    document.querySelector("#image").files = chosen.files;
})()"""


@pytest.fixture
def playground(scripted_cell: ClientCell, browser: Browser) -> Iterator[ConsoleReader]:
    """Somebody without a mouse who has signed in, given a runtime key and chosen a model."""
    state = scripted_cell.state
    url = run_json(state, "status")["operator_url"]
    reader = ConsoleReader(browser, url, run_json(state, "key", "create", "--operator")["secret"])
    browser.has_mouse = False
    reader.sign_in()
    reader.follow("playground")
    browser.focus("main input[name=key]")
    browser.type(scripted_cell.key)
    reader.click("main form button.main")
    browser.choose("#ask [name=model]", KIMI)
    scripted_cell.forget()
    yield reader
    browser.has_mouse = True


def set_field(reader: ConsoleReader, name: str, value: str) -> None:
    """Fill in one of the settings; Tab has chosen what it had, which typing replaces."""
    reader.browser.focus(f"#ask [name={name}]")
    reader.browser.type(value)


def say(reader: ConsoleReader, text: str) -> None:
    """Send a message in place of what the box has, and wait until its answer is whole."""
    answers = "document.querySelectorAll('#talk .said.model').length"
    before = reader.browser.evaluate(answers)
    reader.browser.focus("#text")
    reader.browser.press("Control+a")
    reader.browser.type(text)
    reader.browser.activate("#say button.main")
    await_answer(reader, before + 1)


def await_answer(reader: ConsoleReader, count: int) -> None:
    reader.browser.wait_for(
        f"document.querySelectorAll('#talk .said.model').length === {count}"
        " && document.querySelector('#stop').disabled",
        "no whole answer",
    )


def last_facts(reader: ConsoleReader) -> str:
    return reader.text("#talk .said.model:last-child .dim")


def test_a_stream_is_shown_as_it_comes_and_leads_to_its_request(
    playground: ConsoleReader, scripted_cell: ClientCell
) -> None:
    say(playground, "Good morning.")
    words = playground.text("#talk .said.model .words")
    say(playground, "And now?")
    first, second = scripted_cell.requests()
    assert first["body"]["stream"] is True
    # The second turn is of the same session, and has the whole conversation.
    roles = [each["role"] for each in second["body"]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert second["body"]["messages"][1]["content"].strip() == words
    facts = last_facts(playground)
    for fact in ("turn 2: prompt", "cached", "output", "first token", "$"):
        assert fact in facts, facts
    assert "session: 2 turns, $0." in playground.text("#sum")
    playground.check_quiet()
    playground.browser.wait_for(
        "!!document.querySelector('#talk .said.model:last-child a')", "no link"
    )
    playground.click("#talk .said.model:last-child a")
    assert playground.title().startswith("Request")
    playground.check_quiet()


def test_a_tools_result_goes_back_to_the_model(
    playground: ConsoleReader, scripted_cell: ClientCell
) -> None:
    set_field(playground, "tools", _TOOLS)
    say(playground, _CALL)
    called = playground.text("#talk form.call code")
    assert called == 'read_file({"path": "README.md"})'
    # All of its tokens are a call's: the first of them has its time, too.
    assert "first token" in last_facts(playground)
    playground.browser.focus("#talk form.call textarea")
    playground.browser.type("# Penstock")
    playground.browser.activate("#talk form.call button")
    await_answer(playground, 2)
    asked = scripted_cell.requests()[-1]["body"]
    assert asked["tools"][0]["function"]["name"] == "read_file"
    call, result = asked["messages"][-2:]
    assert call["tool_calls"][0]["function"]["arguments"] == '{"path": "README.md"}'
    assert (result["role"], result["content"]) == ("tool", "# Penstock")
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    playground.check_quiet()


def test_an_image_is_sent_and_shown(playground: ConsoleReader, scripted_cell: ClientCell) -> None:
    playground.browser.evaluate(_CHOOSE % json.dumps(_PIXEL))
    say(playground, "What is this?")
    (asked,) = scripted_cell.requests()
    text, image = asked["body"]["messages"][0]["content"]
    assert (text["type"], text["text"]) == ("text", "What is this?")
    assert image["image_url"]["url"] == f"data:image/png;base64,{_PIXEL}"
    shown = "document.querySelector('#talk .said.you img').naturalWidth"
    assert playground.browser.wait_for(shown, "the image is not shown") == 1
    playground.check_quiet()


def test_a_whole_answer_and_a_refusal_are_told(playground: ConsoleReader) -> None:
    playground.browser.activate("#ask [name=stream]")
    say(playground, "Whole, please.")
    assert "output" in last_facts(playground)
    # It came at once, so that no token was the first to be seen.
    assert "first token" not in last_facts(playground)
    set_field(playground, "max_tokens", "99999999")
    say(playground, "Too much.")
    problem = playground.text("#talk .said.model:last-child .problem")
    assert "99999999" in problem or "context" in problem
    playground.check_quiet(refused=400)


def test_a_refused_message_is_not_sent_again(
    playground: ConsoleReader, scripted_cell: ClientCell
) -> None:
    say(playground, "The first.")
    set_field(playground, "max_tokens", "99999999")
    say(playground, "Too much.")
    # It stands in the box again, for whoever mends the settings.
    assert playground.browser.evaluate("document.querySelector('#text').value") == "Too much."
    # Copied, it is the request that was refused.
    playground.browser.allow(playground.url, "clipboardReadWrite", "clipboardSanitizedWrite")
    assert "Too much." in copied(playground, "curl")
    set_field(playground, "max_tokens", "64")
    say(playground, "The second.")
    assert said(scripted_cell)[-1] == ["The first.", "The second."]
    playground.check_quiet(refused=400)


def test_a_stopped_message_is_not_sent_again(
    playground: ConsoleReader, scripted_cell: ClientCell
) -> None:
    browser = playground.browser
    browser.focus("#text")
    browser.type(_SLOW)
    browser.activate("#say button.main")
    browser.wait_for("document.querySelector('#talk .words')?.textContent", "no answer begins")
    browser.activate("#stop")
    await_answer(playground, 1)
    assert playground.text("#talk .said.model .problem") == "stopped"
    assert browser.evaluate("document.querySelector('#text').value") == _SLOW
    say(playground, "Something else.")
    assert said(scripted_cell)[-1] == ["Something else."]
    playground.check_quiet()


def test_a_conversation_is_readable(playground: ConsoleReader, look: Look) -> None:
    set_field(playground, "tools", _TOOLS)
    say(playground, "Good morning.")
    say(playground, _CALL)
    set_field(playground, "max_tokens", "99999999")
    say(playground, "Too much.")
    assert look("conversation") == []
    playground.check_quiet(refused=400)


def said(cell: ClientCell) -> list[list[str]]:
    """What the engine was told by the user, in each of its requests."""
    return [
        [each["content"] for each in request["body"]["messages"] if each["role"] == "user"]
        for request in cell.requests()
    ]


def copied(playground: ConsoleReader, kind: str) -> str:
    """Copy the conversation by the button of that name, and return what was copied."""
    browser = playground.browser
    browser.activate(f"#{kind}")
    browser.wait_for(f"document.querySelector('#{kind}').textContent === 'Copied'", "not copied")
    return str(browser.evaluate("navigator.clipboard.readText()"))


def test_what_is_copied_as_curl_runs(
    playground: ConsoleReader, scripted_cell: ClientCell, tmp_path: Path
) -> None:
    browser = playground.browser
    browser.allow(playground.url, "clipboardReadWrite", "clipboardSanitizedWrite")
    set_field(playground, "workflow", "trial")
    say(playground, "It's fine.")
    command = copied(playground, "curl")
    assert scripted_cell.key not in command
    done = subprocess.run(
        ["bash", "-c", f"KEY={scripted_cell.key}; {command}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.rstrip().endswith("data: [DONE]")
    ours, theirs = scripted_cell.requests()
    # The conversation has gone on meanwhile.
    assert theirs["body"]["messages"][0] == ours["body"]["messages"][0]
    playground.check_quiet()
