"""A person talks to a model at the console's playground, beside a whole `penstock up`."""

import base64
import json
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.cli_run import run_json
from tests.acceptance.client_cell import KIMI, ClientCell
from tests.acceptance.console.console_cell import ConsoleReader
from tests.acceptance.site_browser import Browser

_TOOLS = '[{"type": "function", "function": {"name": "read_file", "parameters": {}}}]'
_CALL = '@script {"calls": [["read_file", "{\\"path\\": \\"README.md\\"}"]]}'
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
def playground(scripted_cell: ClientCell, browser: Browser) -> ConsoleReader:
    """Somebody who has signed in, given a runtime key and chosen a model."""
    state = scripted_cell.state
    url = run_json(state, "status")["operator_url"]
    reader = ConsoleReader(browser, url, run_json(state, "key", "create", "--operator")["secret"])
    reader.sign_in()
    reader.open("/console/playground")
    browser.click("main input[name=key]")
    browser.type(scripted_cell.key)
    reader.click("main form button.main")
    set_field(reader, "model", KIMI)
    scripted_cell.forget()
    return reader


def set_field(reader: ConsoleReader, name: str, value: str) -> None:
    selector = json.dumps(f"#ask [name={name}]")
    reader.browser.evaluate(f"document.querySelector({selector}).value = {json.dumps(value)}")


def say(reader: ConsoleReader, text: str) -> None:
    """Send a message, and wait until its answer is whole."""
    answers = "document.querySelectorAll('#talk .said.model').length"
    before = reader.browser.evaluate(answers)
    reader.browser.click("#text")
    reader.browser.type(text)
    reader.browser.click("#say button.main")
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
    playground.browser.click("#talk form.call textarea")
    playground.browser.type("# Penstock")
    playground.browser.click("#talk form.call button")
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
    playground.browser.click("#ask [name=stream]")
    say(playground, "Whole, please.")
    assert "output" in last_facts(playground)
    set_field(playground, "max_tokens", "99999999")
    say(playground, "Too much.")
    problem = playground.text("#talk .said.model:last-child .problem")
    assert "99999999" in problem or "context" in problem
    playground.check_quiet(refused=400)


def test_what_is_copied_as_curl_runs(
    playground: ConsoleReader, scripted_cell: ClientCell, tmp_path: Path
) -> None:
    browser = playground.browser
    browser.allow(playground.url, "clipboardReadWrite", "clipboardSanitizedWrite")
    set_field(playground, "workflow", "trial")
    say(playground, "It's fine.")
    browser.click("#curl")
    browser.wait_for("document.querySelector('#curl').textContent === 'Copied'", "not copied")
    copied = browser.evaluate("navigator.clipboard.readText()")
    assert scripted_cell.key not in copied
    done = subprocess.run(
        ["bash", "-c", f"KEY={scripted_cell.key}; {copied}"],
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
