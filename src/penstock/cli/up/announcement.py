"""What `penstock up` prints when it is ready: addresses, account, key and a curl line."""

import shlex

import msgspec

from penstock.cli.output import console, print_json


class Announcement(msgspec.Struct, frozen=True):
    """The facts of a ready run, printed unchanged with --json."""

    base_url: str
    account: str
    key: str
    model: str
    models: tuple[str, ...]
    state: str
    metrics_url: str | None
    # Where operators look at the cell; None if control serves no pages.
    console_url: str | None
    # Whether the state folder has a key that signs in there.
    has_operator_key: bool
    pids: dict[str, int]
    # From the command to the first request that would succeed.
    start_seconds: float

    def print(self, *, is_new: bool, is_json: bool) -> None:
        if is_json:
            print_json(self)
            return
        key = "made now and kept" if is_new else "kept"
        rows = {
            "OpenAI": f"{self.base_url}/v1",
            "Workers AI": f"{self.base_url}/client/v4/accounts/{self.account}/ai",
            "Metrics": self.metrics_url or "off",
            "Account": self.account,
            "Key": f"{self.key}  ({key} in {self.state}/account.json)",
            "Models": ", ".join(self.models),
        }
        if self.console_url is not None:
            key = "an operator's key"
            if self.has_operator_key:
                key = f"the key in {self.state}/operator.key"
            rows["Console"] = f"{self.console_url}  (sign in with {key})"
        out = console()
        out.print(f"[bold green]Ready[/] in {self.start_seconds:.0f} s. Ctrl-C stops everything.")
        for title, value in rows.items():
            out.print(f"  {title:11}{value}", markup=False, soft_wrap=True)
        out.print("\nTry it:\n")
        out.print(curl_line(self), markup=False, soft_wrap=True)


def curl_line(announcement: Announcement) -> str:
    """Return a curl command for one request, to be pasted into a shell."""
    message = {"role": "user", "content": "What is the capital of France?"}
    body = {"model": announcement.model, "messages": [message], "max_tokens": 32}
    words = (
        "curl",
        f"{announcement.base_url}/v1/chat/completions",
        *("-H", f"Authorization: Bearer {announcement.key}"),
        *("-H", "Content-Type: application/json"),
        *("-d", msgspec.json.encode(body).decode()),
    )
    return shlex.join(words)
