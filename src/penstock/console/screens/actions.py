"""Runs operations that change something from forms: the same ones that commands call."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from penstock.console.account_operations import CHANGE_ACCOUNT, CREATE_ACCOUNT
from penstock.console.acts import log_refused, run_logged
from penstock.console.fleet_operations import (
    CORDON_HOST,
    DRAIN_HOST,
    DRAIN_REPLICA,
    RESTART_REPLICA,
    UNCORDON_HOST,
)
from penstock.console.flex_operations import CHANGE_FLEX
from penstock.console.key_operations import CREATE_KEY, REVOKE_KEY, CreatedKey
from penstock.console.limit_operations import REMOVE_LIMIT, SET_LIMITS
from penstock.console.operation import Operation
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.forms import own_page
from penstock.console.texts import text
from penstock.errors import Forbidden, InvalidRequest, NotFound
from penstock.policy.account_names import find_account
from penstock.records.account import Key, Role

_BY_NAME: Final[Mapping[str, Operation[Any, Any]]] = {
    each.name: each
    for each in (
        CREATE_ACCOUNT, CHANGE_ACCOUNT, CREATE_KEY, REVOKE_KEY, SET_LIMITS, REMOVE_LIMIT,
        CHANGE_FLEX, DRAIN_REPLICA, RESTART_REPLICA, CORDON_HOST, UNCORDON_HOST, DRAIN_HOST,
    )
}  # fmt: skip
_AMOUNT: Final = ("measure", "period", "amount")


class ActDone(msgspec.Struct, frozen=True):
    """What was done, where to go on, and a secret that is shown this once."""

    said: str
    back: str
    shown: str | None = None


async def act(rooms: OperatorRooms, key: Key, name: str, form: Mapping[str, str]) -> ActDone:
    """Run one operation with the fields of a form."""
    operation = _BY_NAME.get(name)
    if operation is None:
        raise NotFound("There is no such action.")
    if key.role is Role.AUDITOR:
        await log_refused(operation, rooms, key.id, Forbidden.code)
        raise Forbidden("An auditor's key reads and changes nothing: use an operator's key.")
    fields: dict[str, Any] = {name: value for name, value in form.items() if value}
    back = own_page(fields.pop("back", ""))
    typed = fields.pop("typed", "")
    if operation is SET_LIMITS:
        fields["amounts"] = [{each: fields.pop(each, "") for each in _AMOUNT}]
    try:
        asked = msgspec.convert(fields, operation.question, strict=False)
    except msgspec.ValidationError as wrong:
        # It may name a field that was sent, however long that is.
        raise InvalidRequest(text(wrong)) from None
    expected = await _name_to_type(rooms, operation, asked)
    # As the page shows it: a browser shows one space for several.
    if expected is not None and typed.split() != text(expected).split():
        raise InvalidRequest(f"Type {expected} to confirm.", param="typed")
    answer = await run_logged(operation, rooms, asked)
    if isinstance(answer, CreatedKey):
        return ActDone(f"The new key {answer.key.name}", back, answer.secret)
    return ActDone(operation.summary, back)


async def _name_to_type(
    rooms: OperatorRooms,
    operation: Operation[Any, Any],
    asked: Any,  # noqa: ANN401 - the question of any operation
) -> str | None:
    """Return what must be typed before something that hurts is done; None for all else."""
    if operation is REVOKE_KEY:
        key = await rooms.keys.find_by_id(asked.key)
        return None if key is None else key.name or key.id
    if operation is CHANGE_ACCOUNT and asked.is_blocked:
        id = await find_account(rooms.accounts, asked.account)
        account = await rooms.accounts.find(id)
        return None if account is None else account.name or account.id
    if operation is DRAIN_HOST:
        return str(asked.host)
    return str(asked.replica) if operation is RESTART_REPLICA else None
