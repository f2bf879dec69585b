"""The container image: what its folder is made of, and which program builds it."""

import sys
from pathlib import Path

import pytest
from deploy.container.build import version_of
from deploy.container.builders import Buildah, BuildRefused, Docker, build_options, find_builder
from deploy.container.wheels import digest_of


def test_version_of_the_image_is_the_wheel_s() -> None:
    assert (
        version_of(Path("penstock_inference-0.2.0rc1-cp311-cp311-linux_x86_64.whl")) == "0.2.0rc1"
    )
    with pytest.raises(BuildRefused, match="no wheel of Penstock"):
        version_of(Path("penstock-0.2.0-py3-none-any.whl"))


def test_base_and_labels_are_passed_on() -> None:
    options = build_options("python:3.11", {"a.b": "c d"})
    assert options == ["--build-arg", "BASE=python:3.11", "--label", "a.b=c d"]


def test_docker_builds_on_the_python_that_the_wheel_was_made_for() -> None:
    number = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert Docker().default_base() == f"python:{number}-slim-bookworm"


def test_storage_of_its_own_is_buildah_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "buildah"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_builder(tmp_path)
    assert isinstance(found, Buildah)
    assert found.command[:3] == ["buildah", "--root", str(tmp_path)]


def test_machine_without_either_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BuildRefused, match="apt-get install"):
        find_builder()


def test_other_requirements_have_another_folder(tmp_path: Path) -> None:
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text("a==1\n")
    other.write_text("a==2\n")
    assert digest_of(one) != digest_of(other)
