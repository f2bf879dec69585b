"""`/v1/containers`: containers in which code runs. Each account sees its own only."""

from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.admission import ConcurrencySlots
from penstock.errors import InvalidRequest, StateUnavailable, StoreUnavailable
from penstock.ingress.pages.container_file_pages import ContainerFilePages, asked_container
from penstock.ingress.pages.file_pages import account_of
from penstock.ingress.pages.item_lists import page_asked
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import read_struct
from penstock.intake.request_reader import RequestReader
from penstock.intake.storage_policy import StoragePolicy
from penstock.tools import (
    AccountContainer,
    ContainerBook,
    ContainerQuery,
    ContainerWish,
)
from penstock.tools.container_ids import read_container_id, shown_container
from penstock.tools.sandbox_hosts import memory_text, read_memory
from penstock.wire.resources.containers import (
    ContainerDeleted,
    ContainerExpiry,
    ContainerList,
    ContainerObject,
    CreateContainer,
)

_NO_NETWORK: Final = "disabled"
_STARTS_MAX: Final = 16
_STARTS_PER_ACCOUNT_MAX: Final = 4


class ContainerPages:
    """Creates, lists, shows and deletes containers of the key's account, and their files."""

    def __init__(
        self,
        reader: RequestReader,
        book: ContainerBook,
        policy: StoragePolicy,
        files: ContainerFilePages,
    ) -> None:
        self._reader = reader
        self._book = book
        self._policy = policy
        self._files = files
        # A start is dear for a host, and a caller may end what it has started at once.
        self._starts = ConcurrencySlots(
            "containers being started", _STARTS_MAX, _STARTS_PER_ACCOUNT_MAX
        )

    def routes(self, base: str) -> list[Route]:
        """Return the routes under `base`, which is `/v1` or an account's `/ai/v1`."""
        every, one = f"{base}/containers", f"{base}/containers/{{container_id}}"
        return [
            Route(every, self.create, methods=["POST"]),
            Route(every, self.list_containers),
            Route(one, self.show),
            Route(one, self.delete, methods=["DELETE"]),
            *self._files.routes(one),
        ]

    async def create(self, request: Request) -> Response:
        account = await account_of(self._reader, request)
        if not self._policy.may_store(account):
            raise StateUnavailable(
                "Copies of containers' files are kept for a while, and nothing is kept for this"
                " account."
            )
        asked = await read_struct(request, CreateContainer)
        wish = _wish(asked)
        given = [await self._files.find_given(account.id, id) for id in asked.file_ids or ()]
        with self._starts.take(account.id):
            container = await self._book.create(account.id, wish)
            try:
                for file in given:
                    await self._files.put_given(container, file)
            except BaseException:
                # Its caller gets no id of it, and would be charged until it is idle.
                with suppress(StoreUnavailable):
                    await self._book.end_and_forget(container)
                raise
        return json_response(_shown(container))

    async def list_containers(self, request: Request) -> Response:
        account = await account_of(self._reader, request)
        asked = page_asked(request.query_params)
        after = None if asked.after is None else read_container_id(asked.after)
        if asked.after is not None and after is None:
            raise InvalidRequest("`after` names no container.", param="after")
        name = request.query_params.get("name")
        query = ContainerQuery(
            limit=asked.limit + 1,
            after=after,
            name=None if name is None else name.replace("\0", ""),
            is_oldest_first=asked.is_oldest_first,
        )
        found = [_shown(each) for each in await self._book.page(account.id, query)]
        page = found[: asked.limit]
        return json_response(
            ContainerList(
                data=page,
                first_id=page[0].id if page else None,
                last_id=page[-1].id if page else None,
                has_more=len(found) > asked.limit,
            )
        )

    async def show(self, request: Request) -> Response:
        account, id = await asked_container(self._reader, request)
        return json_response(_shown(await self._book.find(account, id)))

    async def delete(self, request: Request) -> Response:
        account, id = await asked_container(self._reader, request)
        await self._book.delete(account, id)
        return json_response(ContainerDeleted(shown_container(id)))


def _wish(asked: CreateContainer) -> ContainerWish:
    if asked.network_policy is not None and asked.network_policy.type != _NO_NETWORK:
        raise InvalidRequest(
            "Containers have no network here: `network_policy.type` must be `disabled`.",
            param="network_policy",
        )
    if asked.skills:
        raise InvalidRequest("Containers have no skills here.", param="skills")
    if not asked.name.isprintable():
        raise InvalidRequest("`name` must be printable.", param="name")
    return ContainerWish(
        name=asked.name,
        memory_mb=read_memory(asked.memory_limit),
        idle_minutes=None if asked.expires_after is None else asked.expires_after.minutes,
    )


def _shown(container: AccountContainer) -> ContainerObject:
    return ContainerObject(
        id=shown_container(container.id),
        created_at=int(container.created_at),
        status=container.status,
        expires_after=ContainerExpiry(container.idle_minutes),
        last_active_at=int(container.last_active_at),
        memory_limit=memory_text(container.memory_mb),
        name=container.name,
        driver=container.driver,
        isolation=container.isolation,
    )
