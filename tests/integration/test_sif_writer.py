"""Apptainer runs and inspects SIFs that we write."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import BinaryIO

import pytest

from hpcmod.images.sif_writer import SifObject, sync_and_hash, write_sif
from hpcmod.images.squashfs.codecs import codec
from hpcmod.images.squashfs.writer import SquashfsWriter
from tests.squashfs_trees import Tree, make_nodes, read_mounted
from tests.stack import Done, Stack, run

pytestmark = pytest.mark.stack

OBJECTS = (
    SifObject("definition", "", b"bootstrap: docker\nfrom: example.org/written-by-hand:1\n"),
    SifObject("json", "oci-config.json", b'{"architecture": "amd64"}'),
)


@pytest.fixture(scope="module")
def unpacked(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The file tree of a real image."""
    place = tmp_path_factory.mktemp("unpacked") / "root"
    argv = ["unsquashfs", "-quiet", "-no-progress", "-offset", "36864", "-dest", place, stack.tiny_sif]
    subprocess.run(argv, check=True, capture_output=True)
    return read_mounted(place)


def write(path: Path, tree: Tree, compression: str) -> str:
    def write_partition(file: BinaryIO) -> int:
        with SquashfsWriter(file, codec=codec(compression)) as writer:
            return writer.finish(make_nodes(tree, writer, 1 << 20), mtime=0)

    with path.open("w+b") as file:
        write_sif(
            file,
            architecture="amd64",
            created=1_700_000_000,
            uuid=bytes(range(16)),
            objects=OBJECTS,
            write_partition=write_partition,
        )
        return sync_and_hash(file)


def apptainer(stack: Stack, home: Path, *argv: object) -> Done:
    return run([str(stack.apptainer), *map(str, argv)], stack.environment(home), home)


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_apptainer_runs_what_we_wrote(stack: Stack, tmp_path: Path, unpacked: Tree, compression: str) -> None:
    image = tmp_path / "image.sif"
    write(image, unpacked, compression)
    theirs = apptainer(stack, tmp_path, "exec", stack.tiny_sif, "sh", "-c", "cat /etc/os-release; ls -lR /etc | wc -l")
    ours = apptainer(stack, tmp_path, "exec", image, "sh", "-c", "cat /etc/os-release; ls -lR /etc | wc -l")
    assert (ours.returncode, ours.stdout) == (0, theirs.stdout), ours.stderr


def test_apptainer_lists_and_inspects_what_we_wrote(stack: Stack, tmp_path: Path, unpacked: Tree) -> None:
    image = tmp_path / "image.sif"
    write(image, unpacked, "zstd")
    listed = apptainer(stack, tmp_path, "sif", "list", image).stdout
    assert [line.split("|")[-1].strip() for line in listed.splitlines()[-3:]] == [
        "Def.FILE",
        "JSON.Generic",
        "FS (Squashfs/*System/amd64)",
    ]
    assert apptainer(stack, tmp_path, "sif", "dump", "1", image).stdout == OBJECTS[0].data.decode()
    labels = apptainer(stack, tmp_path, "inspect", "--json", "--labels", image)
    theirs = apptainer(stack, tmp_path, "inspect", "--json", "--labels", stack.tiny_sif)
    assert labels.returncode == 0, labels.stderr
    assert json.loads(labels.stdout) == json.loads(theirs.stdout)
    assert apptainer(stack, tmp_path, "verify", image).returncode != 0  # reported as unsigned, without a crash
