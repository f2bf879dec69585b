"""A dedicated replica behind a real gateway, and beside a real puller's claims."""

import msgspec
from tests.integration.cells.gateway_cell import CHAT, SERVED, CellFactory

from penstock.clock import new_id
from penstock.fleet.roster import RosterTable
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState


def test_only_its_accounts_reach_a_dedicated_replica(cells: CellFactory) -> None:
    with cells.open() as cell:
        shared = cell.set_up(CHAT)
        own = cell.add_engine()
        replica = Replica(
            ReplicaId(new_id()),
            ModelId(CHAT),
            own.url,
            ReplicaState.READY,
            SERVED,
            accounts=(cell.account,),
        )
        cell.run(lambda store: RosterTable(store).enroll(replica, keeper="test"))
        cell.wait_for_replicas(CHAT, 2)
        _, _, other = cell.add_account("other")
        for key, count in ((cell.key, 30), (other, 30)):
            for number in range(count):
                body = {
                    "model": CHAT,
                    "messages": [{"role": "user", "content": f"{number} {key}"}],
                }
                answer = cell.client.post(
                    f"{cell.gateway.url}/v1/chat/completions",
                    json=body,
                    headers={"authorization": f"Bearer {key}"},
                )
                assert answer.status_code == 200
        texts = [entry["body"] for entry in own.state().requests_log]
        assert texts
        assert all(cell.key in text for text in texts)
        assert shared.state().requests + len(texts) >= 60
        gone = msgspec.structs.replace(replica, accounts=())
        cell.run(lambda store: RosterTable(store).change(gone))
