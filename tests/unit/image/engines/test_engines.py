"""What each engine is called with. The engines are stand-ins: scripts that write down their words and settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.errors import BadInputError, HpcmodError, NoSpaceError, NotFoundError
from hpcmod.image.engines.apptainer import Apptainer
from hpcmod.image.engines.buildah import Buildah
from hpcmod.image.engines.docker import Docker
from hpcmod.image.engines.engine import BuildSource
from hpcmod.image.engines.place import Place, open_place
from hpcmod.image.engines.podman import Podman
from hpcmod.model.reference import ImageReference

ID = "0123456789abcdef" * 4
WRITE = 'printf "%s " "$(basename "$0")" "$@" >>"$TOLD"; echo >>"$TOLD"; env >"$TOLD.env"\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "bin").mkdir()
    for name in ("buildah", "podman", "docker", "apptainer"):
        stand_in(tmp_path, name, f'case "$*" in *pull*) echo {ID};; esac')
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "TOLD": str(tmp_path / "told"),
        "XDG_RUNTIME_DIR": "/run/mine",
        "APPTAINER_BINDPATH": "/of/the/user",
    }
    with open_place(tmp_path, "x.sif", environ) as opened:
        yield opened


def stand_in(directory: Path, name: str, script: str) -> None:
    program = directory / "bin" / name
    program.write_text(f"#!/bin/sh\n{WRITE}{script}\n")
    program.chmod(0o755)


def source(place: Place, base: str = "") -> BuildSource:
    return BuildSource(place.context, place.context / "file", ImageReference.parse(base) if base else None)


def told(place: Place) -> list[str]:
    return Path(place.environ["TOLD"]).read_text().splitlines()


def settings(place: Place) -> dict[str, str]:
    lines = Path(place.environ["TOLD"] + ".env").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines)


@pytest.mark.parametrize(
    ("base", "pulled"),
    [
        ("docker://docker.io/library/debian:12", "docker://docker.io/library/debian:12"),
        (f"docker://h.example/x:1@sha256:{ID}", f"docker://h.example/x@sha256:{ID}"),  # both are more than it takes
        ("oci:/Images/Base:12", "oci:base:12"),  # an image is named after its path, and names have no capitals
        ("docker-archive:/Images/base.tar", "docker-archive:base"),
    ],
)
def test_buildah_gets_the_base_first_and_builds_upon_its_id(place: Place, base: str, pulled: str) -> None:
    built = Buildah("overlay").build(place, source(place, base))
    storage = f"--root {place.directory}/storage --runroot {place.runroot} --storage-driver overlay"
    assert told(place) == [
        f"buildah {storage} pull -q {pulled} ",
        f"buildah {storage} bud --isolation=chroot --layers=false --from {ID} -f {place.context}/file "
        f"-t oci:image:built {place.context} ",
    ]
    assert (built.kind, built.path, built.tag) == ("oci", str(place.directory / "image"), "built")
    assert settings(place)["TMPDIR"] == str(place.temporary)
    assert settings(place)["XDG_RUNTIME_DIR"] == "/run/mine"  # where logins are


def test_a_dockerfile_of_ones_own_says_itself_what_it_begins_with(place: Place) -> None:
    (place.context / "file").write_text("FROM h.example/x:1\n")
    Buildah("vfs").build(place, source(place))
    assert len(told(place)) == 1 and "--from" not in told(place)[0] and "--storage-driver vfs" in told(place)[0]


@pytest.mark.parametrize("host", ["localhost:5000", "127.0.0.1:5000", "[::1]:5000"])
def test_a_dockerfile_may_begin_with_an_image_of_a_registry_of_this_machine(place: Place, host: str) -> None:
    (place.context / "file").write_text(
        f"from --platform=linux/amd64 {host}/x:1 AS one\nFROM h.example/y:1\nFROM one\n"
    )
    Buildah("vfs").build(place, source(place))
    assert told(place)[0].endswith(f" pull -q --tls-verify=false docker://{host}/x:1 ")
    assert len(told(place)) == 2 and " bud " in told(place)[1]


def test_a_base_of_a_registry_of_this_machine_is_fetched_over_plain_http(place: Place) -> None:
    Buildah("vfs").build(place, source(place, "docker://localhost:5000/x:1"))
    assert told(place)[0].endswith(" pull -q --tls-verify=false docker://localhost:5000/x:1 ")


def test_podman_keeps_no_process_of_ours_and_finds_the_logins(place: Place) -> None:
    (place.context / "file").write_text("FROM h.example/x:1\n")
    Podman("overlay").build(place, source(place))
    assert told(place)[0].startswith("podman ") and " build --isolation=chroot " in told(place)[0]
    assert told(place)[-1].endswith(" system migrate ")
    assert settings(place)["XDG_RUNTIME_DIR"] == str(place.runroot)
    assert settings(place)["REGISTRY_AUTH_FILE"] == "/run/mine/containers/auth.json"


def test_docker_leaves_no_image_with_its_daemon(place: Place) -> None:
    built = Docker().build(place, source(place))
    assert [line.split()[1] for line in told(place)] == ["build", "save", "rmi"]
    assert built.kind == "docker-archive" and built.path == str(place.directory / "image.tar")
    with pytest.raises(BadInputError, match="only upon images that a registry has"):
        Docker().build(place, source(place, "oci:/x"))


@pytest.mark.parametrize(("way", "flags"), [("fakeroot", "--fakeroot"), ("rootmapped", "--fakeroot --ignore-subuid")])
def test_apptainer_writes_in_the_place_alone_and_sees_no_tmp_of_the_machine(place: Place, way: str, flags: str) -> None:
    Apptainer(way).build(place, source(place))
    assert told(place)[0].startswith(f"apptainer build {flags} --mksquashfs-args -comp zstd ")
    found = settings(place)
    assert found["APPTAINER_TMPDIR"].startswith(str(place.directory))
    assert found["APPTAINER_CACHEDIR"].startswith(str(place.directory))
    assert found["APPTAINER_NO_MOUNT"] == found["SINGULARITY_NO_MOUNT"] == "tmp"
    assert "APPTAINER_BINDPATH" not in found


@pytest.mark.parametrize(
    ("said", "fault", "text"),
    [
        ("+ env bash /opt/hpcmod/build/02-mpich.sh\nmake: failed", HpcmodError, "the component mpich failed: "),
        ("cp: write error: No space left on device", NoSpaceError, "No space left on device"),
        ("nothing of note", HpcmodError, "build ended with status 3:\n  | Running post scriptlet\n  | nothing of"),
    ],
)
def test_what_a_failed_build_said_last_is_in_the_error(
    place: Place, tmp_path: Path, said: str, fault: type[HpcmodError], text: str
) -> None:
    stand_in(tmp_path, "apptainer", f"printf '%s\\n' 'Running post scriptlet' '{said}'; exit 3")
    with pytest.raises(fault) as caught:
        Apptainer("fakeroot").build(place, source(place, "oci:/x"))
    assert type(caught.value) is fault and text in caught.value.message


@pytest.mark.parametrize("engine", [Buildah("overlay"), Apptainer("fakeroot")], ids=["buildah", "apptainer"])
def test_a_base_that_cannot_be_got_is_not_found(place: Place, tmp_path: Path, engine: Buildah | Apptainer) -> None:
    for name in ("buildah", "apptainer"):
        stand_in(tmp_path, name, "echo 'FATAL: manifest unknown' >&2; exit 255")
    with pytest.raises(NotFoundError, match=r"h\.example/x:1 cannot be got: FATAL: manifest unknown"):
        engine.build(place, source(place, "docker://h.example/x:1"))
