"""The list of pages: what each is called, and the question that it answers."""

from typing import Final

from penstock.console.screens.accounts import read_accounts
from penstock.console.screens.fleet import read_fleet
from penstock.console.screens.flex import read_flex
from penstock.console.screens.page import Screen
from penstock.console.screens.playground import read_playground
from penstock.console.screens.policy import read_policy
from penstock.console.screens.request import read_request
from penstock.console.screens.requests import read_requests
from penstock.console.screens.sessions import read_sessions
from penstock.console.screens.spend import read_spend
from penstock.console.screens.stability import read_stability

SCREENS: Final = (
    Screen(
        name="stability",
        path="/console/",
        title="Stability",
        question="Do sessions stay where their cache is?",
        read=read_stability,
        digit="1",
    ),
    Screen(
        name="policy",
        path="/console/policy",
        title="Policy",
        question="What did contracts change and refuse?",
        read=read_policy,
        digit="2",
    ),
    Screen(
        name="spend",
        path="/console/spend",
        title="Spend",
        question="What changed in spending?",
        read=read_spend,
        digit="3",
    ),
    Screen(
        name="request",
        path="/console/request",
        title="Request",
        question="What happened to one request?",
        read=read_request,
        digit="4",
        has_period=False,
    ),
    Screen(
        name="fleet",
        path="/console/fleet",
        title="Fleet",
        question="How is the fleet now?",
        read=read_fleet,
        digit="5",
        is_live=True,
        has_period=False,
    ),
    Screen(
        name="sessions",
        path="/console/sessions",
        title="Sessions",
        question="Which sessions stand out?",
        read=read_sessions,
        digit="6",
    ),
    Screen(
        name="flex",
        path="/console/flex",
        title="Flex",
        question="What waits, and what runs?",
        read=read_flex,
        digit="7",
        is_live=True,
        has_period=False,
    ),
    Screen(
        name="accounts",
        path="/console/accounts",
        title="Accounts",
        question="Who may do what, and how much?",
        read=read_accounts,
        digit="8",
        has_period=False,
    ),
    Screen(
        name="playground",
        path="/console/playground",
        title="Playground",
        question="What would an agent get?",
        read=read_playground,
        digit="9",
        has_period=False,
    ),
    Screen(
        name="requests",
        path="/console/requests",
        title="Requests",
        question="Which requests stand out?",
        read=read_requests,
        digit="0",
    ),
)
