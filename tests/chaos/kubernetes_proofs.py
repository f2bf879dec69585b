"""What must be so of the pods of a cell before anything is done to it."""

from typing import Any

import openai
from tests.chaos.kubernetes_cell import KubernetesCell

_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
_USER = "10001"
# What nats-server's image lacks is a shell to look with; its pod is looked at from outside.
_LOOK = f"id -u; test -e {_TOKEN} && echo token; touch /probe 2>/dev/null && echo writable; true"


def check_pods(cell: KubernetesCell) -> None:
    """No pod runs as root or writes to its root, and none but the keeper's has a token."""
    for namespace in ("penstock", "penstock-engines"):
        for pod in cell.pods(namespace):
            if pod["status"]["phase"] == "Running":
                _check(cell, namespace, pod)


def check_sdk(cell: KubernetesCell) -> None:
    """OpenAI's SDK is answered by each gateway, as a whole and as a stream."""
    for pod in cell.pods("penstock"):
        if pod["metadata"]["labels"].get("app.kubernetes.io/component") != "gateway":
            continue
        url = f"http://{pod['status']['podIP']}:8787/v1"
        client = openai.OpenAI(base_url=url, api_key=cell.key, max_retries=0)
        asked = client.chat.completions.create
        whole = asked(model="tiny", messages=[{"role": "user", "content": "hello"}])
        assert whole.choices[0].message.content
        assert whole.usage
        stream = asked(model="tiny", messages=[{"role": "user", "content": "hello"}], stream=True)
        chunks = [chunk.choices[0] for chunk in stream if chunk.choices]
        assert "".join(chunk.delta.content or "" for chunk in chunks)
        assert chunks[-1].finish_reason


def _check(cell: KubernetesCell, namespace: str, pod: dict[str, Any]) -> None:
    name = pod["metadata"]["name"]
    is_keeper = name.startswith("keeper-")
    assert _has_token(pod) == is_keeper, name
    if name.startswith("nats-"):
        return
    seen = cell.kubectl("-n", namespace, "exec", name, "--", "sh", "-c", _LOOK).split()
    assert seen == [_USER, *(["token"] if is_keeper else [])], (name, seen)


def _has_token(pod: dict[str, Any]) -> bool:
    volumes = pod["spec"].get("volumes", [])
    return any("token" in volume["name"] for volume in volumes)
