"""The command lines and environment of each engine. The engines are fakes: scripts that record their arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.building.engines.apptainer import Apptainer, without_settings
from hpcmod.building.engines.buildah import Buildah, Podman
from hpcmod.building.engines.engine import BuildSource
from hpcmod.building.engines.workspace import Workspace, open_workspace
from hpcmod.core.errors import HpcmodError, NoSpaceError, NotFoundError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import ConvertOptions
from tests.programs import make_program

ID = "0123456789abcdef" * 4
WRITE = 'printf "%s " "$(basename "$0")" "$@" >>"$TOLD"; echo >>"$TOLD"; env >"$TOLD.env"\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "bin").mkdir()
    for name in ("buildah", "podman", "apptainer"):
        stand_in(tmp_path, name, f'case "$*" in *pull*) echo {ID};; esac')
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "TOLD": str(tmp_path / "told"),
        "XDG_RUNTIME_DIR": "/run/mine",
        "APPTAINER_BINDPATH": "/of/the/user",
    }
    with open_workspace(tmp_path, "x.sif", environ) as opened:
        yield opened


def stand_in(directory: Path, name: str, script: str) -> None:
    make_program(directory / "bin" / name, f"#!/bin/sh\n{WRITE}{script}\n")


def source(workspace: Workspace, base: str = "") -> BuildSource:
    file = workspace.context / "file"
    if not file.exists():
        file.write_text("FROM h.example/x:1\n")
    return BuildSource(workspace.context, file, ImageReference.parse(base) if base else None)


def told(workspace: Workspace) -> list[str]:
    return Path(workspace.environ["TOLD"]).read_text().splitlines()


def settings(workspace: Workspace) -> dict[str, str]:
    lines = Path(workspace.environ["TOLD"] + ".env").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines)


@pytest.mark.parametrize(
    ("base", "pulled"),
    [
        ("docker://docker.io/library/debian:12", "docker://docker.io/library/debian:12"),
        (f"docker://h.example/x:1@sha256:{ID}", f"docker://h.example/x@sha256:{ID}"),  # not both a tag and a digest
        ("oci:/Images/Base:12", "oci:base:12"),  # an image is named after its path, and names are lowercase
        ("docker-archive:/Images/base.tar", "docker-archive:base"),
    ],
)
def test_buildah_gets_the_base_first_and_builds_upon_its_id(workspace: Workspace, base: str, pulled: str) -> None:
    built = Buildah("overlay").build(workspace, source(workspace, base))
    storage = f"--root {workspace.directory}/storage --runroot {workspace.runroot} --storage-driver overlay"
    assert told(workspace) == [
        f"buildah {storage} pull -q {pulled} ",
        f"buildah {storage} bud --isolation=chroot --layers=false --from {ID} -f {workspace.context}/file "
        f"-t oci:image:built {workspace.context} ",
    ]
    assert (built.kind, built.path, built.tag) == ("oci", str(workspace.directory / "image"), "built")
    assert settings(workspace)["TMPDIR"] == str(workspace.temporary)
    assert settings(workspace)["XDG_RUNTIME_DIR"] == "/run/mine"  # the engine reads logins from this directory


def test_a_users_dockerfile_gives_its_own_base_image(workspace: Workspace) -> None:
    (workspace.context / "file").write_text("FROM h.example/x:1\n")
    Buildah("vfs").build(workspace, source(workspace))
    assert (
        len(told(workspace)) == 1
        and "--from" not in told(workspace)[0]
        and "--storage-driver vfs" in told(workspace)[0]
    )


@pytest.mark.parametrize("host", ["localhost:5000", "127.0.0.1:5000", "[::1]:5000"])
def test_a_dockerfile_may_begin_with_an_image_of_a_registry_of_this_machine(workspace: Workspace, host: str) -> None:
    (workspace.context / "file").write_text(
        f"from --platform=linux/amd64 {host}/x:1 AS one\nFROM h.example/y:1\nFROM one\n"
    )
    Buildah("vfs").build(workspace, source(workspace))
    assert told(workspace)[0].endswith(f" pull -q --tls-verify=false docker://{host}/x:1 ")
    assert len(told(workspace)) == 2 and " bud " in told(workspace)[1]


def test_a_dockerfile_may_copy_from_an_image_of_a_registry_of_this_machine(workspace: Workspace) -> None:
    (workspace.context / "file").write_text(
        "FROM localhost:5000/first:1 AS one\nFROM h.example/y:1\n"
        "COPY --chmod=644 --from=localhost:5000/x:1 /a /b\nCOPY --from=one /a /b\n"
        "COPY --from=localhost:5000/x:1 /c /d\n"
    )
    Buildah("vfs").build(workspace, source(workspace))
    pulled = [line.split()[-1] for line in told(workspace) if " pull " in line]
    assert pulled == ["docker://localhost:5000/first:1", "docker://localhost:5000/x:1"]


def test_a_base_of_a_registry_of_this_machine_is_fetched_over_plain_http(workspace: Workspace) -> None:
    Buildah("vfs").build(workspace, source(workspace, "docker://localhost:5000/x:1"))
    assert told(workspace)[0].endswith(" pull -q --tls-verify=false docker://localhost:5000/x:1 ")


def test_podman_keeps_no_process_of_ours_and_finds_the_logins(workspace: Workspace) -> None:
    (workspace.context / "file").write_text("FROM h.example/x:1\n")
    Podman("overlay").build(workspace, source(workspace))
    assert told(workspace)[0].startswith("podman ") and " build --isolation=chroot " in told(workspace)[0]
    assert told(workspace)[-1].endswith(" system migrate ")
    assert settings(workspace)["XDG_RUNTIME_DIR"] == str(workspace.runroot)
    assert settings(workspace)["REGISTRY_AUTH_FILE"] == "/run/mine/containers/auth.json"


@pytest.mark.parametrize(("way", "flags"), [("fakeroot", "--fakeroot"), ("rootmapped", "--fakeroot --ignore-subuid")])
@pytest.mark.parametrize(
    ("options", "compression", "packing"),
    [
        ("--mksquashfs-args string", "zstd", " --mksquashfs-args -comp zstd -Xcompression-level 3 /"),
        ("--mksquashfs-args string", "gzip:9", " --mksquashfs-args -comp gzip -Xcompression-level 9 /"),
        ("--mksquashfs-args string", "none", " --mksquashfs-args -noI -noD -noF -noX /"),
        ("--fix-perms", "zstd", " /"),
    ],
    ids=["Apptainer 1.4", "gzip", "none", "older or SingularityCE"],
)
def test_apptainer_writes_only_to_the_workspace_and_hides_host_tmp(
    workspace: Workspace, tmp_path: Path, way: str, flags: str, options: str, compression: str, packing: str
) -> None:
    stand_in(tmp_path, "apptainer", f"case $* in *--help) echo '{options}';; esac")
    Apptainer(way).build(workspace, replace(source(workspace), conversion=ConvertOptions.parse(compression)))
    asked, build = told(workspace)
    assert asked == "apptainer build --help " and build.startswith(f"apptainer build {flags}{packing}")
    found = settings(workspace)
    assert found["APPTAINER_TMPDIR"].startswith(str(workspace.directory))
    assert found["APPTAINER_CACHEDIR"].startswith(str(workspace.directory))
    assert found["APPTAINER_NO_MOUNT"] == found["SINGULARITY_NO_MOUNT"] == "tmp"
    assert "APPTAINER_BINDPATH" not in found


@pytest.mark.parametrize(
    ("said", "fault", "text"),
    [
        ("+ env bash /opt/hpcmod/build/02-mpich.sh\nmake: failed", HpcmodError, "the component mpich failed: "),
        ("cp: write error: No space left on device", NoSpaceError, "No space left on device"),
        ("nothing of note", HpcmodError, "build failed with status 3:\n  | Running post scriptlet\n  | nothing of"),
    ],
)
def test_the_error_of_a_build_contains_its_last_output(
    workspace: Workspace, tmp_path: Path, said: str, fault: type[HpcmodError], text: str
) -> None:
    stand_in(tmp_path, "apptainer", f"printf '%s\\n' 'Running post scriptlet' '{said}'; exit 3")
    with pytest.raises(fault) as caught:
        Apptainer("fakeroot").build(workspace, source(workspace, "oci:/x"))
    assert type(caught.value) is fault and text in caught.value.message


@pytest.mark.parametrize("engine", [Buildah("overlay"), Apptainer("fakeroot")], ids=["buildah", "apptainer"])
def test_missing_base_image_is_not_found(workspace: Workspace, tmp_path: Path, engine: Buildah | Apptainer) -> None:
    for name in ("buildah", "apptainer"):
        stand_in(tmp_path, name, "echo 'FATAL: manifest unknown' >&2; exit 255")
    with pytest.raises(NotFoundError, match=r"h\.example/x:1 cannot be pulled: FATAL: manifest unknown"):
        engine.build(workspace, source(workspace, "docker://h.example/x:1"))


def test_settings_for_running_containers_are_left_out() -> None:
    inside = {"SINGULARITYENV_LD_PRELOAD": "x.so", "APPTAINERENV_LD_LIBRARY_PATH": "/opt/cray/lib"}
    settings = {"SINGULARITY_NV": "1", "APPTAINER_BINDPATH": "/none", "APPTAINER_MOUNT": "x"}
    kept = {"APPTAINER_CACHEDIR": "/c", "HOME": "/h"}
    assert without_settings({**settings, **inside, **kept}) == kept
