from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.doctor import site as check
from hpcmod.doctor.site import check_site
from hpcmod.machine.machine import find_machine
from tests.host_libraries import make_host, planned, plant, written
from tests.programs import make_program


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files of a node that has an AMD GPU and one network interface."""
    for name in ("images", "bound", "local"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "images" / "a.sif").touch()
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "hsn0")])
    monkeypatch.setattr(check, "GPU_DEVICES", {"amd": (f"{tmp_path}/kfd",), "nvidia": (f"{tmp_path}/nvidiactl",)})
    return tmp_path


def findings(node: Path, text: str, **environ: str) -> dict[str, Finding]:
    profile = node / "site.toml"
    profile.write_text(f'name = "x"\n{text.format(node=node, cores=os.cpu_count())}')
    return {one.subject: one for one in check_site(find_machine(None, {}, flag=str(profile)), environ)}


def test_an_existing_file_is_ok(node: Path) -> None:
    found = findings(
        node,
        """
        [images]
        central = ["{node}/images"]
        [binds]
        required = ["{node}/bound"]
        [gpu]
        vendor = "amd"
        [network]
        interfaces = ["hsn0"]
        [caches]
        node_local = "{node}/local"
        [nodes.this]
        cores = {cores}
        [stage.nvme]
        directory = "{node}/$WHERE/"
        """,
        WHERE="local",
    )
    assert {one.level for one in found.values()} == {OK}
    assert found[f"images {node}/images"].found == "1 files *.sif"
    assert found["profile"].found == f"{node}/site.toml, selected by --site"
    assert found["stage nvme"].found == f"{node}/local"


@pytest.mark.parametrize(
    ("text", "subject", "verdict", "words"),
    [
        ('[images]\ncentral = ["{node}/no"]', "images {node}/no", WARN, "users keep their own copies"),
        ('[binds]\nrequired = ["{node}/no"]', "bind {node}/no", FAIL, "site.toml:3"),
        ('[binds]\noptional = ["{node}/no"]', "bind {node}/no", OK, "Omitted; set in"),
        ('[gpu]\nvendor = "nvidia"', "GPUs", WARN, "generic-amd"),
        ('[network]\ninterfaces = ["hsn0", "hsn1"]', "network", WARN, "login node"),
        ("[nodes.other]\ncores = 99999", "cores", WARN, "fix [nodes]"),
        ('[nodes.a]\npartitions = ["p"]\n[nodes.b]\npartitions = ["p"]', "partition p", WARN, "Jobs there get a nodes"),
        ('[caches]\nnode_local = "{node}/no"', "caches", WARN, "exist only on compute nodes"),
    ],
)
def test_a_missing_file_is_reported_with_what_it_means(
    node: Path, text: str, subject: str, verdict: str, words: str
) -> None:
    one = findings(node, text)[subject.format(node=node)]
    assert one.level == verdict
    assert words in one.cure


def test_captured_libraries_that_are_stale_are_reported(node: Path) -> None:
    text = '[netstack]\ndirectory = ["{node}/netstack/*"]\n'
    assert "netstack" not in findings(node, text)
    host = make_host(node)
    written(planned(host, f"{host}/lib64/libfabric.so.1"), node / "netstack")
    assert findings(node, text)["netstack"].level == OK
    plant(host / "cxi", "libcxi.so.1", release=".5.0", defines=["LIBCXI_1.5", "LIBCXI_1.9"])
    assert findings(node, text)["netstack libcxi.so.1"].level == FAIL
    (newest,) = (node / "netstack").glob("[!.]*")
    (newest / "record.json").write_text("{")
    found = findings(node, text)
    assert found["netstack record"].level == FAIL
    assert list(found)[-1] != "netstack record", "the rest is looked at all the same"


SRUN = """#!/bin/bash
# A fake srun of Slurm 22.05, which lists the types on stderr.
printf 'MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\nspecific pmix plugin versions available: pmix_v4\\n' >&2
"""


@pytest.mark.parametrize(
    ("offered", "verdict", "said"),
    [
        pytest.param('mpi = ["pmix_v4", "pmi2"]', OK, "srun offers pmix_v4, pmi2", id="all are there"),
        pytest.param('mpi = ["cray_shasta"]', WARN, "srun does not offer cray_shasta", id="one is not"),
        pytest.param("", OK, "srun offers pmix, pmix_v4, pmi2; not set in the profile", id="the profile lists none"),
    ],
)
def test_types_of_mpi_are_those_of_srun(node: Path, offered: str, verdict: str, said: str) -> None:
    make_program(node / "bin" / "srun", SRUN)
    found = findings(node, f"[launcher]\n{offered}\n", PATH=f"{node}/bin:/usr/bin:/bin")["mpi"]
    assert (found.level, found.found) == (verdict, said)


def test_without_slurm_mpi_is_not_mentioned(node: Path) -> None:
    assert "mpi" not in findings(node, '[launcher]\nmpi = ["pmix"]\n', PATH=str(node))
