"""A request's `mcp` tools: which servers they mean, what is refused, and no secret is shown."""

import pickle
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.tools.mcp import McpChoice, McpPolicy, McpTool, offer_tools
from penstock.tools.mcp_settings import ApprovalLists, McpServerSettings
from penstock.tools.settings import ToolsSettings

SECRET = "s3cr3t-never-show"
SETTINGS = ToolsSettings(
    mcp_servers=(
        McpServerSettings("docs", "http://10.0.0.5:9000/mcp", allowed_tools=("find", "read")),
        McpServerSettings("hr", "http://10.0.0.6/mcp", accounts=("acme",)),
    ),
    mcp_hosts=("MCP.example",),
)
READ, WRITE = McpTool(name="read", is_read_only=True), McpTool(name="write")


def choose(settings: ToolsSettings = SETTINGS, account: str = "acme", **entry: Any) -> McpChoice:
    raw = Raw(msgspec.json.encode({"type": "mcp", **entry}))
    return McpPolicy(settings).choose([(0, raw)], account)[0]


def test_a_label_means_the_operators_server() -> None:
    server = choose(server_label="docs").server
    assert (server.url, server.is_operators, server.account) == (
        "http://10.0.0.5:9000/mcp",
        True,
        "acme",
    )
    assert choose(server_label="hr").server.is_operators


def test_a_url_means_the_callers_own_server_if_its_host_is_allowed() -> None:
    server = choose(server_label="mine", server_url="https://mcp.example/mcp").server
    assert (server.is_operators, server.account) == (False, "acme")
    anywhere = msgspec.structs.replace(SETTINGS, mcp_hosts=("*",))
    url = "https://other.example:8443/x?key=1"
    assert choose(anywhere, server_label="mine", server_url=url).server.url == url
    same = choose(server_label="docs", server_url="http://10.0.0.5:9000/mcp")
    assert same.server.is_operators


@pytest.mark.parametrize(
    ("entry", "param", "said"),
    [
        ({"server_label": "x"}, "server_label", "No MCP server"),
        ({"server_label": "x", "connector_id": "c"}, "connector_id", "not supported"),
        ({"server_label": "x", "tunnel_id": "t"}, "tunnel_id", "not supported"),
        ({"server_label": "1 x"}, "server_label", "a letter"),
        ({"server_label": ""}, "server_label", "a letter"),
        ({"server_label": "x", "server_url": "https://evil.example/"}, "server_url", "not a host"),
        ({"server_label": "x", "server_url": "http://mcp.example/"}, "server_url", "https://"),
        ({"server_label": "x", "server_url": "https://10.0.0.1/"}, "server_url", "address"),
        ({"server_label": "x", "server_url": "https://a@mcp.example/"}, "server_url", "user"),
        ({"server_label": "docs", "headers": {"Host": "x"}}, "headers", "the client itself"),
        ({"server_label": "docs", "headers": {"mcp-name": "x"}}, "headers", "the client itself"),
        ({"server_label": "docs", "headers": {"a": "b\r\nc: d"}}, "headers", "printable"),
        ({"server_label": "docs", "headers": {"a b": "c"}}, "headers", "not one"),
        ({"server_label": "docs", "headers": {"A": "1", "a": "2"}}, "headers", "twice"),
        ({"server_label": "docs", "authorization": "é"}, "authorization", "ASCII"),
        (
            {"server_label": "docs", "authorization": "t", "headers": {"Authorization": "x"}},
            "authorization",
            "not both",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_field(
    entry: dict[str, Any], param: str, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said) as raised:
        choose(**entry)
    assert raised.value.param == f"tools[0].{param}"


def test_another_accounts_server_is_refused_like_an_unknown_one() -> None:
    with pytest.raises(InvalidRequest) as unknown:
        choose(server_label="xy")
    with pytest.raises(InvalidRequest) as foreign:
        choose(account="other", server_label="hr")
    assert unknown.value.message.replace("xy", "hr") == foreign.value.message
    with pytest.raises(InvalidRequest):
        choose(account="other", server_label="hr", server_url="http://10.0.0.6/mcp")


@pytest.mark.parametrize(
    "entry",
    [{}, {"server_label": 1}, {"server_label": "docs", "require_approval": "often"}],
)
def test_what_is_no_tool_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        choose(**entry)


def test_servers_of_a_request_have_labels_of_their_own_and_a_bound() -> None:
    raw = Raw(b'{"server_label": "docs"}')
    with pytest.raises(InvalidRequest, match="own label"):
        McpPolicy(SETTINGS).choose([(0, raw), (3, raw)], "acme")
    with pytest.raises(InvalidRequest, match="may name 16"):
        McpPolicy(SETTINGS).choose([(0, raw)] * 17, "acme")


def test_both_allow_lists_must_let_a_tool_pass() -> None:
    tools = [McpTool(name=name) for name in ("find", "read", "write")]

    def offered(**entry: Any) -> list[str]:
        choice = choose(server_label="docs", **entry)
        return [each.tool.name for each in offer_tools([(choice, tools)]).tools]

    assert offered() == ["find", "read"]
    assert offered(allowed_tools=["read", "write"]) == ["read"]
    assert offered(allowed_tools={"tool_names": ["find"]}) == ["find"]
    assert offered(allowed_tools={"read_only": True}) == []
    assert offered(allowed_tools=[]) == []


NEVER_READ = {"never": {"tool_names": ["read"]}}
LISTS = ApprovalLists(always=("write",), never=("read", "write"))


@pytest.mark.parametrize(
    ("caller", "operator", "reads", "writes"),
    [
        (None, "never", True, True),
        ("always", "never", True, True),
        ("never", "never", False, False),
        ("never", "always", True, True),
        (NEVER_READ, "never", False, True),
        (NEVER_READ, "always", True, True),
        ({"always": {"tool_names": ["write"]}}, "never", True, True),
        ({"never": {"read_only": True}}, "never", False, True),
        ({"never": {}}, "never", True, True),
        ({"never": {}, "always": {}}, "never", True, True),
        ({**NEVER_READ, "always": {"tool_names": ["read"]}}, "never", True, True),
        ("never", LISTS, False, True),
        ("always", LISTS, True, True),
        ("never", ApprovalLists(), True, True),
    ],
)
def test_the_stricter_demand_for_approval_counts(
    caller: Any, operator: Any, reads: bool, writes: bool
) -> None:
    server = McpServerSettings("s", "http://10.0.0.5/", require_approval=operator)
    entry = {} if caller is None else {"require_approval": caller}
    choice = choose(ToolsSettings(mcp_servers=(server,)), server_label="s", **entry)
    assert (choice.needs_approval(READ), choice.needs_approval(WRITE)) == (reads, writes)


def test_no_secret_is_shown_stored_or_echoed() -> None:
    choice = choose(
        server_label="mine",
        server_url=f"https://mcp.example/{SECRET}?key={SECRET}",
        authorization=SECRET,
        headers={"x-key": SECRET},
    )
    assert choice.secrets.as_headers() == {"x-key": SECRET, "authorization": f"Bearer {SECRET}"}
    shown = [repr(choice), str(choice.secrets), repr(choice.server), str(choice.echo())]
    assert SECRET not in "".join(shown)
    assert choice.echo()["server_url"] == "https://mcp.example/<redacted>"
    with pytest.raises(TypeError):
        msgspec.json.encode(choice.secrets)
    with pytest.raises(TypeError):
        pickle.dumps(choice.secrets)
    configured = McpServerSettings("s", f"http://h/?k={SECRET}", {"x-key": SECRET})
    assert SECRET not in repr(ToolsSettings(mcp_servers=(configured,)))
