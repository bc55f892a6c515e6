"""Images without bash: one of BusyBox, and one that is a single static program. What works, and what is not offered."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.fabric import make_root, missing_fabric, pack_image, plant_programs
from tests.integration.conftest import Loader, installed, write_easyconfig
from tests.stack import EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack

ANSWER = '#include <stdio.h>\nint main(int argc, char **argv) { return puts(argc > 1 ? argv[1] : "none") < 0; }\n'
LOADER = "lib64/ld-linux-x86-64.so.2"


def make_busybox(stack: Stack, work: Path) -> Path:
    root = make_root(work / "busybox")
    plant_programs(root, ["busybox"], libraries=["libresolv.so.2"], glibc=True)
    (root / "usr" / LOADER).symlink_to(f"/usr/lib/x86_64-linux-gnu/{Path(LOADER).name}")
    return pack_image(stack, root, work / "busybox.sif")


def make_answer(stack: Stack, work: Path) -> Path:
    root = work / "answer"
    root.mkdir()
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", root / "answer"], input=ANSWER, text=True, check=True)
    return pack_image(stack, root, work / "answer.sif")


@pytest.fixture(scope="module")
def bare(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> EasyBuild:
    """The modules BusyBox and Answer; the file `said` has what `eb` printed."""
    if missing_fabric(stack):
        pytest.skip(missing_fabric(stack))
    top = tmp_path_factory.mktemp("no-bash")
    eb = EasyBuild(stack, top, top / "central")
    eb.central.mkdir()
    for make in (make_busybox, make_answer):
        image = make(stack, top)
        image.rename(eb.central / image.name)
    wrapped = {"in_busybox": ["ls"]}
    first = write_easyconfig(top, name="BusyBox", sources=["busybox.sif"], wrapped_commands=wrapped)
    second = write_easyconfig(top, name="Answer", sources=["answer.sif"], wrapped_commands={"answer": ["/answer"]})
    (top / "said").write_text(installed(eb, first, second, HPCMOD_SITE="generic").stdout)
    return eb


@pytest.fixture
def loader(stack: Stack, bare: EasyBuild, tmp_path: Path) -> Loader:
    return Loader(ModuleTool(stack, tmp_path, "lmod"), bare)


def test_the_installation_says_once_what_is_missing(bare: EasyBuild) -> None:
    said = (bare.top / "said").read_text()
    assert said.count("the image has no /bin/bash") == 2
    assert "The image was not started: it has neither true nor sh" in said


def test_commands_and_exec_work_and_what_needs_bash_is_not_offered(loader: Loader) -> None:
    done = loader(
        "module load BusyBox; in_busybox -d /runscripts; singularity exec $SIF busybox echo exec; ls $RUNSCRIPTS; "
        "type start-shell; module help 2>&1"
    )
    assert done.stdout.startswith("/runscripts\nexec\n")
    assert "start-shell" not in done.stdout
    assert "conda-python" not in done.stdout
    assert "get-master\n" in done.stdout


def test_a_single_static_program_is_a_command(loader: Loader) -> None:
    done = loader("module load Answer; answer 42; singularity exec $SIF /answer; hpcmod exec Answer answer 43")
    assert done.stdout == "42\nnone\n43\n", done.stderr


def test_no_command_of_hpcmod_names_what_is_not_there(loader: Loader) -> None:
    done = loader(
        "hpcmod verify BusyBox || exit; module load BusyBox; hpcmod compat $SIF; "
        "for program in ls train.py; do HPCMOD_SITE=generic hpcmod job BusyBox --gpus 0 -N 2 -- $program || exit; done"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the image has no /bin/bash" in done.stdout
    for program in ("ls", "python3 train.py"):
        assert f'exec "$SIF" \\\n    {program}\n' in done.stdout
    assert "run-in-env" not in done.stdout
    assert "conda-python" not in done.stdout
