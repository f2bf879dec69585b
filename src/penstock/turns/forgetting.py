"""Forgets an account: nothing that it sent or got can be read again; what it paid stays."""

import msgspec

from penstock.jobs.submission import JobDesk
from penstock.policy import AccountBook
from penstock.queue.files import Files
from penstock.records.account import AccountId
from penstock.sessions import ConversationUpkeep, ResponseUpkeep
from penstock.store import Store
from penstock.store.sealing import forget_data_key
from penstock.tools import ContainerUpkeep


class KeptRooms(msgspec.Struct, frozen=True):
    """The rooms that keep an account's content."""

    store: Store
    accounts: AccountBook
    desk: JobDesk
    files: Files
    responses: ResponseUpkeep
    conversations: ConversationUpkeep
    containers: ContainerUpkeep


async def forget_account(rooms: KeptRooms, account: AccountId) -> None:
    """Block an account, delete its data key, then its rows and objects.

    It may be called again, after a failure or when jobs that still ran have ended.
    """
    await rooms.accounts.set_blocked(account, is_blocked=True)
    # First, because it alone makes everything unreadable: also copies in backups that have no key.
    async with rooms.store.transaction() as tx:
        await forget_data_key(tx, account)
    await rooms.responses.forget(account)
    await rooms.conversations.forget(account)
    await rooms.containers.forget(account)
    await rooms.files.forget(account)
    await rooms.desk.forget(account)
