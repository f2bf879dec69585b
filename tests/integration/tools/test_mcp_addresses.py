"""A caller's `server_url` leads to public addresses only, whatever its name resolves to."""

from collections.abc import Sequence

import pytest
from tests.integration.tools.hostile_mcp import client_of, hostile_server

from penstock.clock import SystemClock
from penstock.outbound import Caller
from penstock.tools.mcp import FailureKind, McpFailure, McpSecrets, McpServer, McpServers
from penstock.tools.settings import ToolsSettings

PRIVATE = (
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
    "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1",
    "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "fd00:ec2::254", "100.100.100.200",
    "168.63.129.16",
)  # fmt: skip


class Names:
    """Answers each lookup with the next address, and the last one for ever."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)
        self.asked = 0

    async def addresses(self, account: str, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        assert (account, host) == ("acme", "mcp.example")
        return [self._addresses.pop(0) if len(self._addresses) > 1 else self._addresses[0]]


def callers(names: Names, port: int, scheme: str = "https") -> tuple[McpServers, McpServer]:
    settings = ToolsSettings(mcp_hosts=("*",), mcp_connect_seconds=1.0)
    servers = McpServers(settings, Caller(settings.mcp_call_limits, names), SystemClock())
    url = f"{scheme}://mcp.example:{port}/mcp"
    return servers, McpServer(label="theirs", url=url, account="acme")


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_with_a_private_address_is_refused(address: str) -> None:
    servers, server = callers(Names(address), 8443)
    with pytest.raises(McpFailure, match="not one that requests may be sent to") as raised:
        await servers.list_tools(server, McpSecrets("token"))
    assert raised.value.kind is FailureKind.HTTP
    assert not raised.value.may_have_run


async def test_plain_http_and_a_private_address_are_refused_though_a_server_listens() -> None:
    async with hostile_server() as hostile:
        for scheme in ("http", "https"):
            servers, server = callers(Names("127.0.0.1"), hostile.port, scheme)
            with pytest.raises(McpFailure):
                await servers.list_tools(server, McpSecrets("token"))
        assert not hostile.requests


async def test_a_name_that_changes_between_two_lookups_is_checked_at_each() -> None:
    """The address that was checked is the one that is connected to: it is looked up once a call."""
    async with hostile_server() as hostile:
        # The first address is public, but no server of these tests is there.
        names = Names("2001:4860:4860::1", "127.0.0.1")
        servers, server = callers(names, hostile.port)
        with pytest.raises(McpFailure) as first:
            await servers.list_tools(server, McpSecrets("token"))
        assert names.asked == 1
        assert "no connection" in first.value.message
        with pytest.raises(McpFailure, match="not one that requests"):
            await servers.list_tools(server, McpSecrets("token"))
        assert not hostile.requests


async def test_an_operators_server_may_be_private_but_no_metadata_server() -> None:
    async with hostile_server() as hostile:
        servers, server = client_of(hostile.port)
        assert await servers.list_tools(server, McpSecrets("caller's"))
        assert hostile.headers[0]["authorization"] == "Bearer caller's"
    settings_server = McpServer(
        label="s", url="http://169.254.169.254/mcp", account="", is_operators=True
    )
    with pytest.raises(McpFailure, match="not one that requests"):
        await servers.list_tools(settings_server, McpSecrets())
