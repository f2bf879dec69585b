"""The clusters of this folder's tests: one that `KUBECONFIG` names, or one that they start.

Without either they are skipped.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.async_client import AsyncClient
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, ServiceAccount
from tests.integration.kubernetes.cluster_programs import archive
from tests.integration.kubernetes.control_plane import ControlPlane, control_plane

from penstock.clock import new_id

_GIVEN = os.environ.get("KUBECONFIG", "")  # noqa: TID251 - as every tool of Kubernetes reads it


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster of the tests' own, for those that add nodes to it or stop its API server."""
    if _GIVEN:
        pytest.skip("KUBECONFIG names a cluster: this test adds nodes, or changes its API server")
    packed = archive()
    if packed is None:
        pytest.skip("no Kubernetes here: set PENSTOCK_KUBE_ARCHIVE to an archive of its programs")
    with control_plane(tmp_path_factory.mktemp("cluster"), packed) as started:
        yield started


@pytest.fixture
def config_file(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of any cluster: the one that is given, or one of the tests' own."""
    if _GIVEN:
        return Path(_GIVEN)
    own: ControlPlane = request.getfixturevalue("cluster")
    return own.config_file


@pytest.fixture
async def admin(config_file: Path) -> AsyncIterator[AsyncClient]:
    client = AsyncClient(config=KubeConfig.from_file(config_file), trust_env=False)
    yield client
    await client.close()


@pytest.fixture
async def namespace(admin: AsyncClient) -> AsyncIterator[str]:
    """A namespace that ends with the test."""
    name = f"penstock-test-{new_id()}"
    await admin.create(Namespace(metadata=ObjectMeta(name=name)))
    # Pods are refused until it is there, which a controller may take a while for.
    account = ServiceAccount(metadata=ObjectMeta(name="default", namespace=name))
    with suppress(ApiError):
        await admin.create(account)
    yield name
    await admin.delete(Namespace, name)
