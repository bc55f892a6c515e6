"""Several users run `eb` for one module at the same time: one installs it, and all succeed."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.conftest import TOY_IMAGE, leftovers, make_images, running_generation, use_image
from tests.stack import EasyBuild, ModuleTool

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def large_image(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image that takes long enough to copy for all processes to start before the first is done."""
    return make_images(tiny_sif, tmp_path_factory.mktemp("images"), "one", megabytes=100)[0]


def run_at_once(eb: EasyBuild, processes: int, *args: str | Path) -> list[str]:
    """Run `eb` in several processes, which must succeed, and return their outputs."""
    with ThreadPoolExecutor(processes) as pool:
        runs = [pool.submit(eb, *args, EASYBUILD_TMPDIR=str(eb.top / f"tmp{number}")) for number in range(processes)]
    said = [run.result().stdout for run in runs]
    assert [run.result().returncode for run in runs] == [0] * processes, "\n".join(said)
    return said


def test_one_of_several_concurrent_runs_installs_and_all_succeed(
    eb: EasyBuild, toy: Path, large_image: Path, lmod: ModuleTool
) -> None:
    use_image(eb, large_image)
    said = run_at_once(eb, 3, toy)
    copies = [line for text in said for line in re.findall(rf"image .*{TOY_IMAGE}: (\w+)", text)]
    assert len(copies) == 1
    for text in said:
        assert any(words in text for words in ("COMPLETED", "was installed by another process", "already installed"))
    assert sum("waiting for process" in text for text in said) > 0
    assert running_generation(lmod, eb) == "one"
    assert leftovers(eb) == set()


def test_concurrent_rebuilds_all_succeed(eb: EasyBuild, toy: Path, lmod: ModuleTool) -> None:
    assert eb(toy).returncode == 0
    assert all("COMPLETED" in text for text in run_at_once(eb, 2, toy, "--rebuild"))
    assert lmod("module load Toy && start-shell -c 'echo 1'", eb.modules).stdout == "1\n"
    assert leftovers(eb) == set()
