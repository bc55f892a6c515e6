"""Several users run `eb` for one module at the same time: one installs it, and all succeed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import TOY_IMAGE, leftovers, make_images, running_generation, use_image
from tests.stack import EasyBuild, ModuleTool

pytestmark = pytest.mark.stack

AT_ONCE = 3


@pytest.fixture(scope="module")
def large_image(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image that takes long enough to copy for all processes to start before the first is done."""
    return make_images(tiny_sif, tmp_path_factory.mktemp("images"), "one", megabytes=100)[0]


def start(eb: EasyBuild, number: int, *args: str | Path) -> subprocess.Popen[str]:
    env = {**eb.environment(), "EASYBUILD_TMPDIR": str(eb.top / f"tmp{number}")}
    return subprocess.Popen(
        eb.command(*args), env=env, cwd=eb.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_one_of_several_concurrent_runs_installs_and_all_succeed(
    eb: EasyBuild, toy: Path, large_image: Path, lmod: ModuleTool
) -> None:
    use_image(eb, large_image)
    started = [start(eb, number, toy) for number in range(AT_ONCE)]
    said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0] * AT_ONCE, "\n".join(said)
    copies = [line for text in said for line in re.findall(rf"image .*{TOY_IMAGE}: (\w+)", text)]
    assert len(copies) == 1
    for text in said:
        assert any(words in text for words in ("COMPLETED", "was installed by another process", "already installed"))
    assert sum("waiting for process" in text for text in said) > 0
    assert running_generation(lmod, eb) == "one"
    assert leftovers(eb) == set()


def test_concurrent_rebuilds_all_succeed(eb: EasyBuild, toy: Path, lmod: ModuleTool) -> None:
    assert eb(toy).returncode == 0
    started = [start(eb, number, toy, "--rebuild") for number in range(2)]
    said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)
    assert all("COMPLETED" in text for text in said)
    assert lmod("module load Toy && start-shell -c 'echo 1'", eb.modules).stdout == "1\n"
    assert leftovers(eb) == set()
