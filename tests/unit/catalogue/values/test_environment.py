from __future__ import annotations

import pytest

from hpcmod.catalogue.values.environment import Difference, compare_environments

HOST = {
    "_HPCMOD_CONTAINER": "ai_container PyTorch/2.7.1",
    "_HPCMOD_PYTORCH": "NCCL_SOCKET_IFNAME=ours SIF=unset SINGULARITYENV_PYTHONPATH=ours",
    "PYTHONPATH": "/host",
    "APPTAINERENV_PYTHONPATH": "",
    "SINGULARITYENV_PYTHONPATH": "",
    "SINGULARITYENV_MINE": "1",
    "NCCL_SOCKET_IFNAME": "hsn",
    "LD_LIBRARY_PATH": "/opt/cray/lib64",
    "PATH": "/usr/bin",
    "EDITOR": "vi",
    "WITH_CONDA": "of the host",
}
CONTAINER = {
    "PYTHONPATH": "",
    "MINE": "1",
    "NCCL_SOCKET_IFNAME": "hsn",
    "PATH": "/runscripts:/usr/bin",
    "EDITOR": "vi",
    "WITH_CONDA": "source activate",
    "APPTAINER_CONTAINER": "/x.sif",
}


def test_every_variable_of_either_side_is_reported_once_and_no_note_of_ours() -> None:
    names = [one.name for one in compare_environments(HOST, CONTAINER, image=())]
    assert names == sorted({*CONTAINER, "LD_LIBRARY_PATH"})


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("PYTHONPATH", "the module PyTorch/2.7.1, by APPTAINERENV_PYTHONPATH"),
        ("MINE", "you, by SINGULARITYENV_MINE"),
        ("NCCL_SOCKET_IFNAME", "the module PyTorch/2.7.1 on the host"),
        ("LD_LIBRARY_PATH", "the runtime, which does not pass it on"),
        ("PATH", "the image, with SINGULARITYENV_PREPEND_PATH"),
        ("EDITOR", "you on the host"),
        ("WITH_CONDA", "the image"),
        ("APPTAINER_CONTAINER", "the runtime"),
    ],
)
def test_says_who_set_it(name: str, who: str) -> None:
    found = {one.name: one for one in compare_environments(HOST, CONTAINER, image=("WITH_CONDA",))}
    assert found[name] == Difference(name, HOST.get(name), CONTAINER.get(name), who)


def test_a_library_path_combined_by_the_runtime_is_attributed_to_its_first_part() -> None:
    host = {"_HPCMOD_CONTAINER": "f X/1", "_HPCMOD_X": "SINGULARITYENV_LD_LIBRARY_PATH=ours"}
    value = {"APPTAINERENV_LD_LIBRARY_PATH": "/host/lib:${LD_LIBRARY_PATH:-/host/lib}"}
    inside = {"LD_LIBRARY_PATH": "/host/lib:/opt/lib:/.singularity.d/libs"}
    (found,) = compare_environments({**host, **value}, inside, image=("LD_LIBRARY_PATH",))
    assert found.set_by == "the module X/1, by APPTAINERENV_LD_LIBRARY_PATH"


def test_apptainers_variable_wins_if_two_differ() -> None:
    host = {"APPTAINERENV_A": "1", "SINGULARITYENV_A": "2"}
    (found,) = compare_environments(host, {"A": "1"}, image=("A",))
    assert found.set_by == "you, by APPTAINERENV_A"
