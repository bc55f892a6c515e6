"""A new image from a conda environment and a base image: real solver, real containers, a channel in a directory."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.images.trust.provenance import read_provenance
from tests import corpus
from tests.conda_channel import PLACEHOLDER, CondaFile, index_channel, make_conda
from tests.integration.conftest import sha256_of
from tests.stack import Done, Stack, run

pytestmark = pytest.mark.stack

OWN = "/opt/hpcmod-conda"
OF_TINY = "opt/miniconda3/envs/pytorch"
PROGRAM = f"#!/bin/sh\n. {PLACEHOLDER}/share/greet/words\necho $WORD from {PLACEHOLDER}\n"


@dataclass(frozen=True)
class Person:
    """A user with a channel in a directory and a base image without Python."""

    stack: Stack
    home: Path
    environ: dict[str, str]

    def __call__(self, *words: str | Path, **env: str) -> Done:
        argv = [self.stack.python.parent / "hpcmod", *words]
        return run(list(map(str, argv)), {**self.environ, **env}, self.home)

    def must(self, *words: str | Path, **env: str) -> str:
        done = self(*words, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def inside(self, sif: Path, *words: str) -> list[str]:
        """Return the lines printed by a command in a container, with no bind mounts or modules."""
        done = run([str(self.stack.apptainer), "-q", "exec", str(sif), *words], self.environ, self.home)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def make_channel(channel: Path) -> None:
    """Write programs in both package formats, one of them with a post-link script."""
    make_conda(channel, "greet-data", "1", {"share/greet/words": "WORD=hello\n"}, kind="tar.bz2")
    for version in ("1.0", "2.0"):
        program = CondaFile(f"{PROGRAM}echo {version}\n".encode(), 0o755)
        make_conda(channel, "greet", version, {"bin/greet": program}, depends=["greet-data", "__glibc >=2.17"])
    make_conda(channel, "noisy", "1", {"bin/.noisy-post-link.sh": CondaFile(b"#!/bin/sh\ntouch ran\n", 0o755)})
    index_channel(channel)


def make_plain(root: Path, path: Path) -> Path:
    """Create an image without Python from an unpacked one."""
    shutil.rmtree(root / "opt/miniconda3")
    (root / ".singularity.d/env/91-conda.sh").unlink()
    body = corpus.pack(root, path.with_suffix(".body"), "-noD", "-noF")
    return corpus.make_sif(path, body.read_bytes())


@pytest.fixture
def person(stack: Stack, tmp_path: Path) -> Person:
    (tmp_path / "tmp").mkdir()
    own = {"HPCMOD_SITE": "generic", "HPCMOD_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    return Person(stack, tmp_path, stack.environment(tmp_path, **own))


def test_programs_are_added_to_an_image_with_another_python_and_its_own_stays(person: Person, tiny_sif: Path) -> None:
    home = person.home
    make_channel(home / "channel")
    asked = ("bake", tiny_sif, "--conda", "greet<2", "--conda", "noisy", "--channel", home / "channel")
    done = person(*asked, "-o", "mine.sif")
    assert (done.returncode, done.stdout) == (0, "mine.sif\n"), done.stderr
    said = " ".join(done.stderr.split())
    assert "noisy: its scripts were not run: bin/.noisy-post-link.sh" in said
    show = f"greet; echo $PATH; /{OF_TINY}/bin/python -c 'import packaging'; ls {OWN}/conda-meta"
    hello, version, path, *records = person.inside(home / "mine.sif", "sh", "-c", show)
    assert (hello, version, path.split(":")[0]) == (f"hello from {OWN}", "1.0", f"{OWN}/bin")
    assert records == ["greet-1.0-h0_0.json", "greet-data-1-h0_0.json", "history", "noisy-1-h0_0.json"]
    known = read_provenance(home / "mine.sif")
    assert known and known.reference == f"bake:{tiny_sif.name}@sha256:{sha256_of(tiny_sif)}"
    assert known.lock == sha256_of(home / "pylock.mine.toml")
    assert not list(home.rglob("ran")) and not list((home / "tmp").iterdir())
