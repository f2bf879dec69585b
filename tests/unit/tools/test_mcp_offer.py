"""Every offered tool has a name of its own that engines take, and is found by it again."""

import re
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from penstock.tools.mcp import McpChoice, McpSecrets, McpServer, McpTool, offer_tools
from penstock.tools.mcp.tool_entry import ToolFilter

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
labels = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,63}", fullmatch=True)
tool_names = st.text(min_size=1, max_size=128) | st.sampled_from(["a", "b__c", "c", "a.b", "a_b"])


def choice(label: str) -> McpChoice:
    return McpChoice(
        server=McpServer(label=label, url="https://a/", account=""),
        secrets=McpSecrets(),
        description="",
        allowed=ToolFilter(),
        approval="always",
    )


def tools(*names: str) -> list[McpTool]:
    return [McpTool(name=name) for name in names]


@given(
    st.dictionaries(labels, st.lists(tool_names, unique=True, max_size=6), max_size=4),
    st.sets(st.sampled_from(["a__a", "a__b__c", "x"])),
)
def test_names_are_fit_unique_and_lead_back(servers: dict[str, list[str]], taken: set[str]) -> None:
    offer = offer_tools([(choice(label), tools(*names)) for label, names in servers.items()], taken)
    functions = [each.function for each in offer.tools]
    assert functions == sorted(set(functions))
    assert not taken & set(functions)
    assert len(functions) == sum(map(len, servers.values()))
    for each in offer.tools:
        assert NAME.fullmatch(each.function)
        assert offer.find(each.function) is each
    assert {(each.choice.server.label, each.tool.name) for each in offer.tools} == {
        (label, name) for label, names in servers.items() for name in names
    }


def test_plain_names_stay_plain_and_others_end_with_a_digest() -> None:
    offer = offer_tools([(choice("docs"), tools("read", "a.b", "x" * 100))])
    assert offer.find("docs__read") is not None
    assert offer.find("docs__a.b") is None
    assert [name[:10] for name in (each.function for each in offer.tools)] == [
        "docs__a_b_",
        "docs__read",
        "docs__xxxx",
    ]


def test_two_servers_that_would_share_a_name_do_not() -> None:
    offer = offer_tools([(choice("a"), tools("b__c")), (choice("a__b"), tools("c"))], ["z"])
    assert len({each.function for each in offer.tools}) == 2
    assert offer.find("a__b__c") is None


def test_a_tool_that_takes_anothers_name_removes_both() -> None:
    pair = [(choice("a"), tools("b__c")), (choice("a__b"), tools("c"))]
    stolen = offer_tools(pair).tools[0].function
    other = choice("a")
    again = offer_tools([*pair[1:], (other, tools("b__c", stolen.removeprefix("a__")))])
    assert len({each.function for each in again.tools}) == len(again.tools)
    assert again.find(stolen) is None
