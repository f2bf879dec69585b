"""Examples for the help pages: for each command some lines to copy, and what each is for."""

from collections.abc import Mapping
from typing import Final

Example = tuple[str, str]

_JOB: Final = "01a1e5b5-4430-76d7-a06d-5c7d263c4383"
_KEY: Final = "01a1e5b5-51c8-7d21-9e0f-2b6a90c4d817"
_RESPONSE: Final = f"resp_{_JOB.replace('-', '')}"
_CONTAINER: Final = f"cntr_{_JOB.replace('-', '')}"
_BATCH: Final = f"batch_{_JOB.replace('-', '')}"

EXAMPLES: Final[Mapping[str, tuple[Example, ...]]] = {
    "": (
        ("penstock demo", "See what it does, in a minute, with nothing installed."),
        ("penstock up --imitate", "A whole cell on this machine, with imitated engines."),
    ),
    "up": (
        ("penstock up --imitate", "Two imitated engines: nothing to install, ready in seconds."),
        ("penstock up --attach http://127.0.0.1:8000", "In front of an engine that already runs."),
        ("penstock up --imitate --sandbox dev", "With a place where code runs, without isolation."),
    ),
    "demo": (
        ("penstock demo", "The whole table."),
        ("penstock demo --quick", "Half a minute, rougher figures."),
    ),
    "status": (
        ("penstock status", "What the `up` of this folder runs."),
        ("penstock status --state /srv/penstock --json", "Another folder's, for a script."),
    ),
    "logs": (
        ("penstock logs", "Which logs there are."),
        ("penstock logs gateway --follow", "The gateway's, as it is written."),
    ),
    "stop": (
        ("penstock stop", "End the `up` of this folder, streams first."),
        ("penstock stop --state /srv/penstock --seconds 30", "Another folder's, within 30 s."),
    ),
    "doctor": (
        ("penstock doctor", "Look at the `up` of this folder."),
        ("penstock --config prod.toml doctor", "Look at an installation, by its configuration."),
    ),
    "chat": (
        ("penstock chat", "Talk to the first model of the `up` of this folder."),
        ("echo 'What is 2 + 2?' | penstock chat --model default", "One question, from a pipe."),
    ),
    "bench": (
        ("penstock bench http://127.0.0.1:8787 --key-file key.txt", "20 agent sessions."),
        ("penstock bench http://127.0.0.1:8000 --sessions 4 --turns 3", "An engine, with less."),
    ),
    "models": (
        ("penstock models", "What the catalogue has, and what runs here."),
        ("penstock models show default", "The model that `default` names."),
    ),
    "models list": (
        ("penstock models list", "What the catalogue has, and what runs here."),
        ("penstock models list --json", "The same, for a script."),
    ),
    "models show": (
        ("penstock models show smollm2", "Names, prices and the engine's command."),
        ("penstock models show default --json", "The default model, for a script."),
    ),
    "models check": (
        ("penstock models check", "The entries in catalogue.folder."),
        ("penstock models check ./models", "Entries that are not in use yet."),
    ),
    "models fetch": (
        ("penstock models fetch kimi-k2.5", "Before a keeper needs them, with a bar."),
        ("penstock models fetch kimi-k2.5 --json", "For a script: where the files are."),
    ),
    "usage": (
        ("penstock usage --group-by workflow", "The last 24 hours, by workflow."),
        ("penstock usage --since 2026-11-01 --by day --csv", "A row for each day, as CSV."),
    ),
    "usage diff": (
        ("penstock usage diff --since 7d", "Why the last seven days cost more than those before."),
        ("penstock usage diff --against week --alarm-usd 50", "For cron: 6 if $50 dearer."),
    ),
    "usage stability": (
        ("penstock usage stability", "Which workflows' sessions are steady, over 24 hours."),
        ("penstock usage stability --since 7d --json", "A week, for a script."),
    ),
    "usage sessions": (
        ("penstock usage sessions", "The dearest sessions of yesterday and today."),
        ("penstock usage sessions --order slope --since 7d", "Whose prompts grow fastest."),
    ),
    "usage export": (
        ("penstock usage export --out usage.csv", "The last 24 hours in FOCUS columns."),
        ("penstock usage export --out november.parquet --since 2026-11-01", "A month, as Parquet."),
    ),
    "jobs list": (
        ("penstock jobs list", "The newest 20 jobs."),
        ("penstock jobs list --in queued --limit 100", "What waits."),
    ),
    "jobs show": (
        (f"penstock jobs show {_JOB}", "One job: where it is, and how it ended."),
        (f"penstock jobs show {_BATCH} --json", "A batch, for a script."),
    ),
    "jobs cancel": (
        (f"penstock jobs cancel {_JOB}", "One job."),
        (f"penstock jobs cancel {_BATCH}", "All that is left of a batch."),
    ),
    "jobs watch": (
        ("penstock jobs watch", "All queues, until they are empty."),
        (f"penstock jobs watch --batch {_BATCH}", "One batch."),
    ),
    "responses": (
        ("penstock responses list", "What is stored, newest first."),
        (f"penstock responses show {_RESPONSE}", "One of them, without its content."),
    ),
    "responses list": (
        ("penstock responses list --account research", "One account's."),
        ("penstock responses list --limit 100 --json", "A hundred, for a script."),
    ),
    "responses show": (
        (f"penstock responses show {_RESPONSE}", "Its model, state, size and age."),
        (f"penstock responses show {_RESPONSE} --json", "The same, for a script."),
    ),
    "responses delete": (
        (f"penstock responses delete {_RESPONSE}", "For good, with its content."),
        (f"penstock responses delete {_RESPONSE} --json", "The same, for a script."),
    ),
    "containers": (
        ("penstock containers list", "What runs now, newest first."),
        ("penstock containers usage", "What containers cost today, by account."),
    ),
    "containers list": (
        ("penstock containers list --account research", "One account's."),
        ("penstock containers list --ended --json", "Also those that ended of late, for a script."),
    ),
    "containers stop": (
        (f"penstock containers stop {_CONTAINER}", "End its code now; copies of files stay."),
        (f"penstock containers stop {_CONTAINER} --json", "The same, for a script."),
    ),
    "containers usage": (
        ("penstock containers usage --since 2026-11-01", "This month's, up to today."),
        ("penstock containers usage --account research --json", "One account's, for a script."),
    ),
    "tools list": (
        ("penstock tools list", "Each MCP server's tools, and which need approval."),
        ("penstock tools list --json", "The same, for a script."),
    ),
    "flex pause": (
        ("penstock flex pause smollm2", "Begin no more jobs of this model."),
        ("penstock flex pause default", "The same of the default model."),
    ),
    "flex resume": (
        ("penstock flex resume smollm2", "Begin jobs of this model again."),
        ("penstock flex resume smollm2 --json", "The same, for a script."),
    ),
    "flex limit": (
        ("penstock flex limit smollm2 4", "Four jobs at a time on each replica."),
        ("penstock flex limit smollm2", "As many as fit, again."),
    ),
    "flex show": (
        ("penstock flex show", "Each model's queue, as it was measured last."),
        ("penstock flex show --json", "The same, for a script."),
    ),
    "requests": (
        ("penstock requests --slow --since 1h", "Who waited longest for a first token."),
        ("penstock requests --failed --since 1d", "What failed, and why."),
        ("penstock requests --follow --workflow nightly", "Requests as they end."),
    ),
    "explain": (
        (f"penstock explain {_JOB}", "Why it was slow, dear, or refused."),
        (f"penstock explain {_JOB} --json", "The same, for a script."),
    ),
    "top": (
        ("penstock top", "Replicas, workflows, sessions and requests; 1 to 4 change the tab."),
        ("penstock top --once --tab workflows", "One look at one tab."),
        ("penstock top --json", "One look at everything, for a script."),
    ),
    "route explain": (
        ("penstock route explain request.json", "Where this chat request would go now."),
        ("penstock route explain request.json --session agent-7", "The same in a session."),
    ),
    "deploy plan": (
        ("penstock deploy plan cell.toml", "What would change, and where replicas would go."),
        ("penstock deploy plan cell.toml --json", "The same, for a script."),
    ),
    "deploy apply": (
        ("penstock deploy apply cell.toml", "Bring the cell to what the file says."),
        ("penstock deploy apply cell.toml --why 'vLLM 0.12'", "With a note in the history."),
    ),
    "deploy status": (
        ("penstock deploy status", "What is wanted and ready, and how rollouts stand."),
        ("penstock deploy status --json", "The same, for a script."),
    ),
    "deploy history": (
        ("penstock deploy history kimi", "Its revisions: who, when and why."),
        ("penstock deploy history kimi --json", "The same, for a script."),
    ),
    "deploy rollback": (
        ("penstock deploy rollback kimi", "To the revision before."),
        ("penstock deploy rollback kimi --to 3", "To the third."),
    ),
    "deploy scale": (
        ("penstock deploy scale kimi 4", "Four replicas."),
        ("penstock deploy scale kimi 2 --max 6", "At least two, at most six."),
    ),
    "deploy pause": (
        ("penstock deploy pause kimi", "Stop its rollout where it is."),
        ("penstock deploy pause kimi --json", "The same, for a script."),
    ),
    "deploy resume": (
        ("penstock deploy resume kimi", "Let it go on."),
        ("penstock deploy resume kimi --json", "The same, for a script."),
    ),
    "deploy remove": (
        ("penstock deploy remove kimi", "End its replicas, and forget it."),
        ("penstock deploy remove kimi --json", "The same, for a script."),
    ),
    "replicas list": (
        ("penstock replicas list", "Where they run, and what they do now."),
        ("penstock replicas list --gone --json", "Also those that ended today, for a script."),
    ),
    "replicas show": (
        (f"penstock replicas show {_JOB}", "One replica: its GPUs, its address, its state."),
        (f"penstock replicas show {_JOB} --json", "The same, for a script."),
    ),
    "replicas drain": (
        (f"penstock replicas drain {_JOB}", "End it when its requests have finished."),
        (f"penstock replicas drain {_JOB} --json", "The same, for a script."),
    ),
    "replicas restart": (
        (f"penstock replicas restart {_JOB}", "End an engine that hangs, at once."),
        (f"penstock replicas restart {_JOB} --json", "The same, for a script."),
    ),
    "replicas logs": (
        (f"penstock replicas logs {_JOB}", "The end of its engine's log."),
        (f"penstock replicas logs {_JOB} -f", "And what comes, until Ctrl-C."),
    ),
    "hosts list": (
        ("penstock hosts list", "GPUs, replicas, and what waits for room or weights."),
        ("penstock hosts list --json", "The same, for a script."),
    ),
    "hosts cordon": (
        ("penstock hosts cordon gpu-3", "Start nothing new there."),
        ("penstock hosts cordon gpu-3 --json", "The same, for a script."),
    ),
    "hosts uncordon": (
        ("penstock hosts uncordon gpu-3", "Use it again."),
        ("penstock hosts uncordon gpu-3 --json", "The same, for a script."),
    ),
    "hosts drain": (
        ("penstock hosts drain gpu-3", "Empty it, before a reboot."),
        ("penstock hosts drain gpu-3 --json", "The same, for a script."),
    ),
    "account create": (
        ("penstock account create research", "An account that goes on while Postgres is away."),
        ("penstock account create trial --on-outage refuse", "One that does not."),
    ),
    "account list": (
        ("penstock account list", "All accounts."),
        ("penstock account list --json", "The same, for a script."),
    ),
    "account set": (
        ("penstock account set research --flex-weight 4", "Four times the share of jobs."),
        ("penstock account set research --affinity strict", "Sessions stay where they are."),
    ),
    "account block": (
        ("penstock account block research", "Stop everything of this account."),
        ("penstock account block research --json", "The same, for a script."),
    ),
    "account forget": (
        ("penstock account forget research --yes", "Delete all that it sent and got, for good."),
        ("penstock account forget research --yes --json", "The same, for a script."),
    ),
    "account unblock": (
        ("penstock account unblock research", "Let it go on."),
        ("penstock account unblock research --json", "The same, for a script."),
    ),
    "key create": (
        ("penstock key create --account research --name ci", "A key to infer with."),
        ("penstock key create --operator --name admin", "A key to administer with."),
    ),
    "key list": (
        ("penstock key list", "All keys."),
        ("penstock key list --account research", "One account's."),
    ),
    "key revoke": (
        (f"penstock key revoke {_KEY}", "End this key, as `key list` names it."),
        (f"penstock key revoke {_KEY} --json", "The same, for a script."),
    ),
    "limit set": (
        ("penstock limit set --account research --usd-per-month 250", "A budget."),
        (
            "penstock limit set --account research --session '*' --tokens-per-day 1000000",
            "So many tokens for each session by itself.",
        ),
    ),
    "limit list": (
        ("penstock limit list", "All limits, and how they stand."),
        ("penstock limit list --account research", "One account's."),
    ),
    "limit remove": (
        ("penstock limit remove 7", "The limit that `limit list` numbers 7."),
        ("penstock limit remove 7 --json", "The same, for a script."),
    ),
    "limit leases": (
        ("penstock limit leases", "Which gateway workers hold leases."),
        ("penstock limit leases --json", "The same, for a script."),
    ),
    "limit release": (
        (f"penstock limit release --holder {_JOB}", "Free what a lost worker held."),
        (f"penstock limit release --holder {_JOB} --force", "Even if it is not lost."),
    ),
    "config show": (
        ("penstock config show", "Every setting, and where its value comes from."),
        ("penstock --config prod.toml config show --json", "Of another file, for a script."),
    ),
    "migrate": (
        ("penstock migrate --check", "What is missing; changes nothing."),
        ("penstock --config prod.toml migrate", "Apply it, before a new version starts."),
    ),
    "gateway": (
        ("penstock gateway", "With the settings of penstock.toml."),
        ("penstock --config gateway.toml gateway", "With those of another file."),
    ),
    "keeper": (
        ("penstock keeper", "Replicas go on when the keeper ends."),
        ("penstock keeper --stop-replicas", "Replicas end with the keeper."),
    ),
    "sandbox": (
        ("penstock sandbox", "Serve gateways, by the `sandbox` settings."),
        ("penstock sandbox --dev", "On a laptop, without isolation, on loopback only."),
    ),
    "contracts example": (
        ("penstock contracts example", "Which examples there are."),
        ("penstock contracts example coding-agent", "A contract to start from."),
    ),
    "contracts check": (
        ("penstock contracts check contracts", "Is every contract right? Exit 2 if not."),
        ("penstock contracts check contracts --json", "Their names, for a script."),
    ),
    "contracts diff": (
        ("penstock contracts diff contracts", "What would change, and whether it is stricter."),
        ("penstock contracts diff contracts --json", "The same, for a review by a script."),
    ),
    "contracts test": (
        ("penstock contracts test contracts", "Decide the requests of contracts/cases."),
        ("penstock contracts test contracts --json", "The same, for a script."),
    ),
    "contracts apply": (
        ("penstock contracts apply contracts --message 'short titles'", "All at once."),
        ("penstock contracts apply --set 41 --wait", "Back to set 41, on every gateway."),
    ),
    "contracts list": (
        ("penstock contracts list", "What is in force, and who applied what."),
        ("penstock contracts list --json", "The same, for a script."),
    ),
    "contracts show": (
        ("penstock contracts show coding-agent", "The contract in force, as it was written."),
        ("penstock contracts show coding-agent@3", "Its third version."),
    ),
    "contracts effects": (
        ("penstock contracts effects --since 7d", "What each contract changed and refused."),
        ("penstock contracts effects --workflow nightly --json", "One workflow's, for a script."),
    ),
    "contracts alerts": (
        ("penstock contracts alerts contracts", "Rules for Prometheus."),
        ("penstock contracts alerts /etc/penstock/contracts", "Of another folder."),
    ),
    "decisions": (
        ("penstock decisions --verdict deny --since 7d", "What was refused in a week."),
        ("penstock decisions --kind operator --json", "What operators did, for a script."),
    ),
    "decisions verify": (
        ("penstock decisions verify", "Names rows that were changed or removed."),
        ("penstock decisions verify --heads heads.jsonl", "Also against heads held outside."),
    ),
    "decisions heads": (
        ("penstock decisions heads", "The last row of each chain."),
        ("penstock decisions heads --json", "For a file that is held outside."),
    ),
    "sandbox image": (
        ("penstock sandbox image /var/lib/penstock/sandbox-image", "With the usual packages."),
        ("penstock sandbox image /srv/bare --bare", "With Python's own library only."),
    ),
    "control": (
        ("penstock control", "With the settings of penstock.toml."),
        ("penstock --config control.toml control", "With those of another file."),
    ),
}  # fmt: skip
