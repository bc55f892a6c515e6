from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.notebooks.kernels import find_kernels, install_kernel, kernels_directory, remove_kernel
from hpcmod.notebooks.values.kernel import make_kernel
from tests.calls import hpcmod
from tests.installations import install

KERNEL = make_kernel("/sw/in-environment", "A/1", "/sw")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"JUPYTER_DATA_DIR": "/d", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/d/kernels"),
        ({"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/jupyter/kernels"),
        ({"HOME": "/h"}, "/h/.local/share/jupyter/kernels"),
    ],
)
def test_the_directory_is_that_of_jupyter(environ: dict[str, str], expected: str) -> None:
    assert kernels_directory(environ) == Path(expected)


def test_without_a_home_kernels_have_no_directory() -> None:
    with pytest.raises(LackingError, match="home directory"):
        kernels_directory({})


def test_kernels_are_installed_replaced_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "kernels" / KERNEL.name).mkdir(parents=True)  # as a killed run leaves it
    install_kernel(tmp_path / "kernels", KERNEL)
    changed = replace(KERNEL, display_name="mine")
    install_kernel(tmp_path / "kernels", changed)
    assert list(find_kernels(tmp_path / "kernels")) == [changed]
    remove_kernel(tmp_path / "kernels", changed)
    assert list((tmp_path / "kernels").iterdir()) == []


def test_a_kernel_of_someone_else_is_not_replaced_or_listed(tmp_path: Path) -> None:
    (tmp_path / KERNEL.name).mkdir()
    (tmp_path / KERNEL.name / "kernel.json").write_text('{"argv": ["python"]}')
    with pytest.raises(BadInputError, match="not installed by hpcmod"):
        install_kernel(tmp_path, KERNEL)
    assert list(find_kernels(tmp_path)) == []


def test_removing_an_installation_names_the_kernels_that_stop_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    for version in ("2.6", "2.7"):
        install(tmp_path, f"PyTorch/{version}")
        root = str(tmp_path / "software/PyTorch" / version)
        kernel = make_kernel(f"{root}/in-environment", f"PyTorch/{version}", root, name=f"torch{version}")
        install_kernel(tmp_path / "home/.local/share/jupyter/kernels", kernel)
    done = hpcmod("remove", "--dry-run", "PyTorch/2.6")
    assert "the Jupyter kernel torch2.6 would stop working" in done.stderr
    done = hpcmod("remove", "--json", "PyTorch/2.6")
    assert json.loads(done.stdout)["kernels"] == ["torch2.6"]
    assert "hpcmod kernel --remove --name torch2.7" in hpcmod("remove", "PyTorch/2.7").stderr
