"""Describes the pages of containers for `/openapi.json`, on both surfaces."""

from typing import Final

from penstock.ingress.pages.openapi_parts import Schema, content, number, operation, parameter, ref
from penstock.wire.resources import containers

CONTAINER_TYPES: Final = (
    containers.CreateContainer, containers.AddContainerFile, containers.ContainerObject,
    containers.ContainerList, containers.ContainerDeleted, containers.ContainerFileObject,
    containers.ContainerFileList, containers.ContainerFileDeleted,
)  # fmt: skip
_ON_WORKERS_AI: Final = "/client/v4/accounts/{account_id}/ai/v1"
_PAGE: Final = [
    number("limit", 100),
    parameter("order", "query", "`desc`, the newest first, or `asc`."),
    parameter("after", "query", "The last id of the page before."),
]
_FORM: Final = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "file_id": {"type": "string", "description": "A file of `/v1/files`, instead."},
    },
}


def container_paths() -> Schema:
    account = parameter("account_id", "path", "The account.")
    return {
        **_paths("/v1", [], "OpenAIErrorAnswer"),
        **_paths(_ON_WORKERS_AI, [account], "EnvelopeErrorAnswer"),
    }


def _paths(base: str, shared: list[Schema], error: str) -> Schema:
    one = [*shared, parameter("container_id", "path", "The container.")]
    path = f"{base}/containers"
    named = parameter("name", "query", "Only those of this name.")
    shown = ref("ContainerObject")
    return {
        path: {
            "post": operation("Start a container", shown, error, "CreateContainer", shared),
            "get": operation(
                "Containers that run, and that ended of late",
                ref("ContainerList"), error, "", [*shared, *_PAGE, named],
            ),
        },
        f"{path}/{{container_id}}": {
            "get": operation("A container that runs", shown, error, "", one),
            "delete": operation(
                "End a container, and delete its files", ref("ContainerDeleted"), error, "", one
            ),
        },
        **_file_paths(f"{path}/{{container_id}}/files", one, error),
    }  # fmt: skip


def _file_paths(path: str, shared: list[Schema], error: str) -> Schema:
    one = [*shared, parameter("file_id", "path", "The file.")]
    shown = ref("ContainerFileObject")
    create = operation("Put a file into a container", shown, error, "AddContainerFile", shared)
    create["requestBody"]["content"] = {
        "multipart/form-data": {"schema": _FORM},
        **content(ref("AddContainerFile")),
    }
    read = operation("What is in a file", {}, error, "", one)
    read["responses"]["200"]["content"] = {
        "application/octet-stream": {"schema": {"description": "Its bytes."}}
    }
    return {
        path: {
            "post": create,
            "get": operation(
                "Files that were put in or made", ref("ContainerFileList"), error, "",
                [*shared, *_PAGE],
            ),
        },
        f"{path}/{{file_id}}": {
            "get": operation("One file", shown, error, "", one),
            "delete": operation(
                "Delete the copy of a file", ref("ContainerFileDeleted"), error, "", one
            ),
        },
        f"{path}/{{file_id}}/content": {"get": read},
    }  # fmt: skip
