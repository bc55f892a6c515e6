from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NotFoundError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.oci.layout import read_layout
from tests.oci_corpus import f, put, saved_files, tar_bytes, write_layout

LAYERS = [tar_bytes([f("a", "one")]), tar_bytes([f("b", "two")])]
saved = partial(saved_files, layers=LAYERS)


def read(text: str, architecture: str = "amd64") -> list[bytes]:
    """Return the stored bytes of an image's layers."""
    with read_layout(ImageReference.parse(text), architecture=architecture) as image:
        return [layer.open().read() for layer in image.layers]


def pack(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    """Write a tar of files and symbolic links."""
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return path


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return write_layout(tmp_path / "layout", LAYERS, compression="none")


def test_reads_a_layouts_directory_and_an_archive_of_it(layout: Path, tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar", files_of(layout))
    assert read(f"oci:{layout}") == read(f"oci:{layout}:latest") == LAYERS
    assert read(f"oci-archive:{archive}") == read(f"oci-archive:{archive}:latest") == LAYERS


def test_says_digests_and_configuration(layout: Path) -> None:
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        entry = json.loads((layout / "index.json").read_text())["manifests"][0]
        assert image.digest == entry["digest"]
        assert [layer.diff_id for layer in image.layers] == list(image.config.diff_ids)
        assert json.loads(image.config_text)["architecture"] == "amd64"


def test_reads_archives_of_old_docker_versions(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar", saved("busybox:latest"))
    for name in ("", ":busybox", ":busybox:latest"):
        assert read(f"docker-archive:{archive}{name}") == LAYERS
    with read_layout(ImageReference.parse(f"docker-archive:{archive}"), architecture="amd64") as image:
        assert [layer.digest for layer in image.layers] == ["", ""]
        assert [layer.media_type for layer in image.layers] == ["application/vnd.docker.image.rootfs.diff.tar"] * 2


def test_follows_the_links_of_old_docker_archives(tmp_path: Path) -> None:
    files = saved("x:1", layers=[LAYERS[0], LAYERS[0]])
    del files["1/layer.tar"]
    archive = pack(tmp_path / "a.tar", files, {"1/layer.tar": "../0/layer.tar"})
    assert read(f"docker-archive:{archive}") == [LAYERS[0], LAYERS[0]]


def test_reads_both_forms_that_docker_save_writes_today(layout: Path, tmp_path: Path) -> None:
    files = files_of(layout)
    manifest = json.loads(files[blob(json.loads(files["index.json"])["manifests"][0])])
    listed = {
        "Config": blob(manifest["config"]),
        "RepoTags": ["busybox:latest"],
        "Layers": [blob(one) for one in manifest["layers"]],
    }
    archive = pack(tmp_path / "a.tar", {**files, "manifest.json": json.dumps([listed]).encode()})
    assert read(f"docker-archive:{archive}:busybox") == LAYERS
    assert read(f"oci-archive:{archive}:latest") == LAYERS
    with read_layout(ImageReference.parse(f"docker-archive:{archive}"), architecture="amd64") as image:
        assert [layer.digest for layer in image.layers] == [one["digest"] for one in manifest["layers"]]


def blob(descriptor: Mapping[str, str]) -> str:
    return "blobs/" + descriptor["digest"].replace(":", "/")


def add_image(layout: Path, tag: str, **platform: str) -> None:
    """Add an image of one layer to a layout."""
    other = write_layout(layout.parent / f"other-{tag}-{len(platform)}", [LAYERS[1]], compression="none")
    for name, data in files_of(other).items():
        if name.startswith("blobs/"):
            (layout / name).write_bytes(data)
    index = json.loads((layout / "index.json").read_text())
    (entry,) = json.loads((other / "index.json").read_text())["manifests"]
    entry["annotations"] = {"org.opencontainers.image.ref.name": tag} if tag else {}
    if platform:
        entry["platform"] = platform
    index["manifests"].append(entry)
    (layout / "index.json").write_text(json.dumps(index))


def test_several_tags_need_a_choice_and_the_error_lists_them(layout: Path) -> None:
    add_image(layout, "other")
    with pytest.raises(NotFoundError, match="'latest', 'other'"):
        read(f"oci:{layout}")
    with pytest.raises(NotFoundError, match=r"no image named 'third'; found: 'latest', 'other'"):
        read(f"oci:{layout}:third")
    assert read(f"oci:{layout}:other") == [LAYERS[1]]


def test_one_image_of_two_tags_needs_no_name(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "layout", LAYERS, tags=("a", "b"), compression="none")
    assert read(f"oci:{layout}") == LAYERS


def test_a_docker_archive_with_several_images_needs_a_name(tmp_path: Path) -> None:
    first, second = saved("x:1"), saved("y:2", layers=[LAYERS[1], LAYERS[0]])
    listed = json.loads(first["manifest.json"]) + json.loads(second["manifest.json"])
    archive = pack(tmp_path / "a.tar", {**second, **first, "manifest.json": json.dumps(listed).encode()})
    with pytest.raises(NotFoundError, match="'x:1', 'y:2'"):
        read(f"docker-archive:{archive}")
    assert read(f"docker-archive:{archive}:x:1") == LAYERS


def test_an_index_in_the_index_is_followed_to_the_machines_image(layout: Path) -> None:
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    entry["platform"] = {"os": "linux", "architecture": "amd64"}
    inner = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    outer = put(layout, inner, "application/vnd.oci.image.index.v1+json")
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [outer]}))
    assert read(f"oci:{layout}") == LAYERS
    with pytest.raises(LackingError, match="linux/amd64"):
        read(f"oci:{layout}", "arm64")


def test_an_index_that_holds_itself_ends(layout: Path) -> None:
    inner = b"{}"
    for _ in range(6):
        entry = put(layout, inner, "application/vnd.oci.image.index.v1+json")
        inner = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    (layout / "index.json").write_bytes(inner)
    with pytest.raises(HpcmodError):
        read(f"oci:{layout}")


def test_an_image_for_another_architecture_is_refused(layout: Path, tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar", saved("x:1", architecture="arm64"))
    for text in (f"oci:{layout}", f"docker-archive:{archive}"):
        with pytest.raises(LackingError):
            read(text, "ppc64le" if text.startswith("oci") else "amd64")


@pytest.mark.parametrize(
    ("magic", "cure"), [(b"\x1f\x8b", "gunzip"), (b"\x28\xb5\x2f\xfd", "unzstd"), (b"\xfd7zXZ", "unxz")]
)
def test_an_archive_that_is_compressed_as_a_whole_is_refused_with_the_command(
    tmp_path: Path, magic: bytes, cure: str
) -> None:
    (tmp_path / "a.tar").write_bytes(magic + bytes(600))
    with pytest.raises(BadInputError) as caught:
        read(f"docker-archive:{tmp_path}/a.tar")
    assert cure in caught.value.cure


def test_reports_missing_files(layout: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        read(f"oci:{tmp_path}/nowhere")
    with pytest.raises(BadInputError, match=r"neither index\.json nor manifest\.json"):
        read(f"oci:{tmp_path}")
    next((layout / "blobs" / "sha256").iterdir()).unlink()
    with pytest.raises(NotFoundError, match="has no file blobs/sha256/"):
        read(f"oci:{layout}")


def corrupt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "change", [corrupt, lambda data: data[:-1], lambda data: data + b"x"], ids=["bit", "cut", "long"]
)
def test_every_blob_is_verified(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    names = list(files_of(write_layout(tmp_path / "names", LAYERS)))
    for number, name in enumerate(name for name in names if name.startswith("blobs/")):
        layout = write_layout(tmp_path / str(number), LAYERS)
        (layout / name).write_bytes(change((layout / name).read_bytes()))
        with pytest.raises(VerificationError):
            read(f"oci:{layout}")


def test_a_configuration_of_docker_save_is_verified_by_its_name(tmp_path: Path) -> None:
    files = saved("x:1")
    name = next(iter(files))
    archive = pack(tmp_path / "a.tar", {**files, name: files[name].replace(b"linux", b"Linux")})
    with pytest.raises(VerificationError):
        read(f"docker-archive:{archive}")


def test_an_archive_that_is_truncated_is_never_read_as_whole(tmp_path: Path) -> None:
    whole = pack(tmp_path / "a.tar", saved("x:1")).read_bytes()
    for end in range(0, len(whole) - 10240, 512 * 3 + 100):
        (tmp_path / "cut.tar").write_bytes(whole[:end])
        with pytest.raises(HpcmodError):
            read(f"docker-archive:{tmp_path}/cut.tar")
