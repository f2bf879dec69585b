"""What the pages of containers take and answer, in OpenAI's shapes."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class ContainerExpiry(msgspec.Struct, frozen=True):
    """After how many minutes without use a container ends."""

    minutes: Annotated[int, Meta(ge=1, le=10_000)]
    anchor: Literal["last_active_at"] = "last_active_at"


class NetworkPolicy(msgspec.Struct, frozen=True):
    """What a container may reach. Here that is nothing: `type` is `disabled`."""

    type: str = "disabled"


class CreateContainer(msgspec.Struct, frozen=True):
    """The body of `POST /v1/containers`."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    expires_after: ContainerExpiry | None = None
    file_ids: Annotated[list[str], Meta(max_length=50)] | None = None
    memory_limit: Annotated[str, Meta(pattern="^[1-9][0-9]{0,5}[gm]$")] | None = None
    network_policy: NetworkPolicy | None = None
    skills: list[Any] | None = None


class AddContainerFile(msgspec.Struct, frozen=True):
    """The body of `POST /v1/containers/{id}/files` that copies a file of `/v1/files`."""

    file_id: str


class ContainerObject(msgspec.Struct, kw_only=True):
    """A container. `driver` and `isolation` say how it is kept apart from its host."""

    id: str
    object: Literal["container"] = "container"
    created_at: int
    status: str
    expires_after: ContainerExpiry
    last_active_at: int
    memory_limit: str
    name: str
    network_policy: NetworkPolicy = NetworkPolicy()
    driver: str
    isolation: str


class ContainerList(msgspec.Struct, kw_only=True):
    """A page of containers."""

    object: Literal["list"] = "list"
    data: list[ContainerObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ContainerDeleted(msgspec.Struct):
    """The answer of `DELETE /v1/containers/{id}`."""

    id: str
    object: Literal["container.deleted"] = "container.deleted"
    deleted: bool = True


class ContainerFileObject(msgspec.Struct, kw_only=True):
    """A file of a container: its copy, which is kept longer than the container."""

    id: str
    object: Literal["container.file"] = "container.file"
    container_id: str
    created_at: int
    bytes: int
    path: str
    source: str


class ContainerFileList(msgspec.Struct, kw_only=True):
    """A page of files."""

    object: Literal["list"] = "list"
    data: list[ContainerFileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ContainerFileDeleted(msgspec.Struct):
    """The answer of `DELETE /v1/containers/{id}/files/{file_id}`."""

    id: str
    object: Literal["container.file.deleted"] = "container.file.deleted"
    deleted: bool = True
