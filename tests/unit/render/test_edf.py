from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.errors import BadInputError
from hpcmod.importing.edf import import_edf
from hpcmod.importing.outcome import ImportedEasyconfig
from hpcmod.model.documents import load_toml
from hpcmod.model.easyconfigs.edf import EdfText, make_edf
from hpcmod.render.easyconfig import render_easyconfig
from hpcmod.render.edf import render_edf
from tests.foreign_recipes import write_tree

DOCUMENTED = {
    "image": 'image = "library/ubuntu:24.04"\n',
    "pytorch-mounts": (
        'image = "nvcr.io#nvidia/pytorch:24.01-py3"\n'
        'mounts = ["/capstor/scratch/cscs/me:/capstor/scratch/cscs/me", "/data.sqsh:/data:sqsh", "/ro:/ro:ro"]\n'
        'workdir = "/capstor"\n[env]\nNCCL_DEBUG = "INFO"\nQUOTED = "it\'s \\"so\\" %(name)s"\n'
    ),
    "hook-off": 'image = "quay.io#org/app:6.2"\n[annotations]\ncom.hooks.cxi.enabled = "false"\n',
    "hook-on": (
        'image = "quay.io#org/app:6.2"\n[annotations]\ncom.hooks.cxi.enabled = "true"\n'
        'com.hooks.aws_ofi_nccl.enabled = "true"\ncom.hooks.aws_ofi_nccl.variant = "cuda12"\n'
    ),
    "digest": f'image = "ghcr.io#org/app@sha256:{"a" * 64}"\nentrypoint = false\nwritable = true\n',
    "based": 'base_environment = "./pytorch-mounts.toml"\nmounts = ["/more:/more"]\n[env]\nA = ""\n',
    "ssh": (
        'image = "ubuntu:24.04"\n[annotations.com.hooks.ssh]\nenabled = "true"\nauthorize_ssh_key = "/k.pub"\n'
        '[annotations]\ncom.hooks.nvidia_cuda_mps.enabled = "true"\n'
    ),
    "devices": 'image = "ubuntu:24.04"\ndevices = ["nvidia.com/gpu=all", "/dev/fuse"]\n',
}
"""The kinds of files in CSCS's documentation: images, mounts, inheritance, hooks, devices."""


def imported(path: Path) -> ImportedEasyconfig:
    (one,) = import_edf([path], environ={}, working=path.parent, expand=False)
    assert isinstance(one, ImportedEasyconfig), one
    return one


@pytest.mark.parametrize("name", DOCUMENTED)
def test_import_export_import_gives_the_same(name: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {f"in/{one}.toml": text for one, text in DOCUMENTED.items()})
    first = imported(tmp_path / "in" / f"{name}.toml")
    exported = make_edf(render_easyconfig(first.easyconfig), "x.eb")
    write_tree(tmp_path, {f"out/{name}.toml": render_edf(exported)})
    second = imported(tmp_path / "out" / f"{name}.toml")
    assert second.easyconfig == first.easyconfig
    again = make_edf(render_easyconfig(second.easyconfig), "x.eb")
    assert render_edf(again) == render_edf(exported)


def edf(**values: object) -> EdfText:
    given = {"name": "t", "image": "a#b:1", "module": "t/1", "description": "", "mounts": (), "env": ()}
    return EdfText(**{**given, "annotations": (), "left_out": (), "changed": (), **values})  # type: ignore[arg-type]


def test_hostile_text_stays_in_its_place() -> None:
    odd = 'x"\n[env]\nOWNED = "1'
    text = render_edf(edf(description=odd, env=(("A", odd),), mounts=(odd,), left_out=(odd,), changed=(odd,)))
    read = load_toml(text, "x")
    assert (read["env"], read["mounts"], set(read)) == (
        {"A": odd},
        [odd],
        {"image", "mounts", "entrypoint", "writable", "env"},
    )


def test_what_is_lost_is_in_the_comments() -> None:
    text = render_edf(edf(left_out=("the bind /x*",), changed=("the version 2",)))
    assert "# not carried over: the bind /x*\n# changed: the version 2\n" in text


def test_a_nul_is_refused() -> None:
    with pytest.raises(BadInputError):
        render_edf(edf(description="a\0b"))
