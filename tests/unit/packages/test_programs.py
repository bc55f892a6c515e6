from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpcmod.packages.programs import copy_programs, read_pip_lists, read_pip_metadata
from tests.corpus import Program, make_image
from tests.package_states import TARGET

OF_IMAGE = {
    "torchrun": "#!/opt/env/bin/python3.12\n# -*- coding: utf-8 -*-\nfrom torch.distributed.run import main\n",
    "long": "#!/bin/sh\n'''exec' /opt/env/bin/python \"$0\" \"$@\"\n' '''\n",
    "pip": "#!/opt/env/bin/python3.12\n",
    "python3.12": "binary",
    "other": "#!/usr/bin/python3\n",
    "shell": "#!/bin/sh\necho /opt/env/bin/python\n",
}


def test_the_images_python_programs_start_the_python_that_sees_the_packages(tmp_path: Path) -> None:
    tree = {f"opt/env/bin/{name}": Program(text) for name, text in OF_IMAGE.items()}
    sif = make_image(tmp_path / "x.sif", tree)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/accelerate").write_text("of the user")
    copy_programs(replace(TARGET, sif=str(sif)), tmp_path / "venv")
    inside = "/user-software/venv/pytorch/bin/python"
    copied = {path.name: path.read_text() for path in (tmp_path / "venv/bin").iterdir()}
    assert copied == {
        "accelerate": "of the user",
        "torchrun": OF_IMAGE["torchrun"].replace("/opt/env/bin/python3.12", inside),
        "long": OF_IMAGE["long"].replace("/opt/env/bin/python", inside),
    }
    assert (tmp_path / "venv/bin/torchrun").stat().st_mode & 0o111


def test_programs_that_packages_bring_are_in_pips_lists(tmp_path: Path) -> None:
    for name, rows in {
        "Needy-1.0": "../../../bin/needy,sha256=x,100\nneedy.py,sha256=y,20\n",
        "pip-26": "../../../bin/pip3,,1\n../../../bin/../../../etc/x,,1\n",
        "bad": "\x00\n",
    }.items():
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info/RECORD").write_text(rows)
    assert read_pip_lists(tmp_path)[0]["needy"] == 120
    assert read_pip_lists(tmp_path)[1] == ("needy",)


def test_an_environment_whose_packages_were_all_removed_has_none(tmp_path: Path) -> None:
    assert list(read_pip_metadata(tmp_path / "site-packages")) == []
