"""A control plane for all tests of this folder; without its archive they are skipped."""

from collections.abc import Iterator

import pytest
from tests.integration.kubernetes.cluster_programs import archive
from tests.integration.kubernetes.control_plane import ControlPlane, control_plane


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    packed = archive()
    if packed is None:
        pytest.skip("no Kubernetes here: set PENSTOCK_KUBE_ARCHIVE to an archive of its programs")
    with control_plane(tmp_path_factory.mktemp("cluster"), packed) as started:
        yield started
