"""Make an OCI layout with one image of one layer from the tar of a root file system: oci_layout.py TAR DIRECTORY."""

import hashlib
import json
import platform
import shutil
import sys
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TYPES = "application/vnd.oci.image"


def put(layout: Path, content: bytes, media_type: str) -> dict[str, object]:
    """Write a blob; return its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def put_layer(layout: Path, tar: Path) -> dict[str, object]:
    """Move the layer to the blobs; keep it uncompressed, because each build reads it."""
    sha256 = hashlib.sha256()
    with tar.open("rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    size, digest = tar.stat().st_size, sha256.hexdigest()
    shutil.move(tar, layout / "blobs/sha256" / digest)
    return {"mediaType": f"{_TYPES}.layer.v1.tar", "digest": f"sha256:{digest}", "size": size}


def make_layout(tar: Path, layout: Path) -> None:
    """Write the layout under a temporary name, then rename it."""
    new = layout.with_name(f"{layout.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "blobs/sha256").mkdir(parents=True)
    layer = put_layer(new, tar)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["bash"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    named = put(new, json.dumps(config).encode(), f"{_TYPES}.config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": f"{_TYPES}.manifest.v1+json", "config": named, "layers": [layer]}
    index = {"schemaVersion": 2, "manifests": [put(new, json.dumps(manifest).encode(), f"{_TYPES}.manifest.v1+json")]}
    (new / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (new / "index.json").write_text(json.dumps(index))
    shutil.rmtree(layout, ignore_errors=True)
    new.replace(layout)


if __name__ == "__main__":
    make_layout(Path(sys.argv[1]), Path(sys.argv[2]))
