"""A new image from a base image and requirements: the real pip and the real solver, without root, engine or network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.images import Sif
from hpcmod.packages.values.lockfile import parse_package_lock
from tests.conda_channel import PLACEHOLDER, CondaFile, index_channel, make_conda
from tests.integration.conftest import sha256_of
from tests.stack import Done, Stack, run
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

PREFIX = "/opt/miniconda3/envs/pytorch"


@dataclass(frozen=True)
class Baker:
    """A user who makes images."""

    stack: Stack
    home: Path
    environ: dict[str, str]

    def __call__(self, *words: str | Path) -> Done:
        argv = [self.stack.python.parent / "hpcmod", "bake", *words]
        return run(list(map(str, argv)), self.environ, self.home)

    def must(self, *words: str | Path) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def inside(self, sif: Path, *words: str) -> list[str]:
        """Return the lines printed by a command in a container, with no bind mounts or modules."""
        done = run([str(self.stack.apptainer), "-q", "exec", str(sif), *words], self.environ, self.home)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture
def baker(stack: Stack, tmp_path: Path) -> Baker:
    (tmp_path / "tmp").mkdir()
    own = {"HPCMOD_SITE": "generic", "HPCMOD_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    return Baker(stack, tmp_path, stack.environment(tmp_path, **own))


SHOW = "import einops, needy, packaging; print(einops.version, needy.version, packaging.__version__, einops.__file__)"
INSIDE = "/opt/hpcmod-packages/1/lib/python3.11/site-packages/einops.py"


def test_an_image_is_made_from_requirements_and_again_from_its_lock(baker: Baker, tiny_sif: Path) -> None:
    home, wheels = baker.home, baker.home / "wheels"
    for version in ("0.8.0", "0.8.1"):
        make_wheel(wheels, "einops", version, scripts={"einops-tool": "einops:main"})
    make_wheel(wheels, "needy", "1.0", requires=["einops>=0.8", "click"])
    make_wheel(wheels, "clash", "1.0", requires=["packaging<20"])
    (home / "requirements.txt").write_text("needy  # needs einops and click\neinops<0.8.1\n")
    offline = ("--wheel-dir", wheels, "--no-index")
    done = baker(tiny_sif, "-r", home / "requirements.txt", *offline, "-o", home / "mine.sif")
    assert (done.returncode, done.stdout) == (0, f"{home / 'mine.sif'}\n"), done.stderr
    (seen,) = baker.inside(home / "mine.sif", f"{PREFIX}/bin/python", "-c", SHOW)
    assert seen.split() == ["0.8.0", "1.0", baker.stack.packaging, INSIDE]
    lock = parse_package_lock((home / "pylock.mine.toml").read_text(), "pylock.mine.toml")
    assert (lock.state.requirements, lock.lines) == (
        ("needy", "einops<0.8.1"),
        (
            f"einops==0.8.0 --hash=sha256:{sha256_of(wheels / 'einops-0.8.0-py3-none-any.whl')}",
            f"needy==1.0 --hash=sha256:{sha256_of(wheels / 'needy-1.0-py3-none-any.whl')}",
        ),
    )
    known = Sif(home / "mine.sif").provenance(None)
    assert known and known.reference == f"bake:{tiny_sif.name}@sha256:{sha256_of(tiny_sif)}"

    make_wheel(wheels, "needy", "2.0")
    locked = (tiny_sif, "--lock", home / "pylock.mine.toml", *offline)
    made = json.loads(baker.must(*locked, "-o", home / "new/again.sif", "--json"))
    assert made["sha256"] == sha256_of(home / "new/again.sif") == sha256_of(home / "mine.sif")
    assert (made["added"], made["commands"]) == (["einops==0.8.0", "needy==1.0"], ["einops-tool"])
    assert (made["requirements"], made["lock"]) == (["needy", "einops<0.8.1"], str(home / "pylock.mine.toml"))
    make_wheel(wheels, "needy", "1.0", files={"needy.py": "evil = True\n"})
    refused = baker(*locked, "-o", home / "three.sif")
    assert (refused.returncode, "does not match its hash" in refused.stderr) == (4, True), refused.stderr
    assert not list(home.glob("*three*")) and not list((home / "tmp").iterdir())


OWN = "/opt/hpcmod-conda"
PROGRAM = f"#!/bin/sh\n. {PLACEHOLDER}/share/greet/words\necho $WORD from {PLACEHOLDER}\n"


def make_channel(channel: Path) -> None:
    """Write programs in both package formats, one of them with a post-link script."""
    make_conda(channel, "greet-data", "1", {"share/greet/words": "WORD=hello\n"}, kind="tar.bz2")
    for version in ("1.0", "2.0"):
        program = CondaFile(f"{PROGRAM}echo {version}\n".encode(), 0o755)
        make_conda(channel, "greet", version, {"bin/greet": program}, depends=["greet-data", "__glibc >=2.17"])
    make_conda(channel, "noisy", "1", {"bin/.noisy-post-link.sh": CondaFile(b"#!/bin/sh\ntouch ran\n", 0o755)})
    index_channel(channel)


def test_programs_are_added_to_an_image_with_another_python_and_its_own_stays(baker: Baker, tiny_sif: Path) -> None:
    home = baker.home
    make_channel(home / "channel")
    done = baker(tiny_sif, "--conda", "greet<2", "--conda", "noisy", "--channel", home / "channel", "-o", "mine.sif")
    assert (done.returncode, done.stdout) == (0, "mine.sif\n"), done.stderr
    said = " ".join(done.stderr.split())
    assert "noisy: its scripts were not run: bin/.noisy-post-link.sh" in said
    show = f"greet; echo $PATH; {PREFIX}/bin/python -c 'import packaging'; ls {OWN}/conda-meta"
    hello, version, path, *records = baker.inside(home / "mine.sif", "sh", "-c", show)
    assert (hello, version, path.split(":")[0]) == (f"hello from {OWN}", "1.0", f"{OWN}/bin")
    assert records == ["greet-1.0-h0_0.json", "greet-data-1-h0_0.json", "history", "noisy-1-h0_0.json"]
    known = Sif(home / "mine.sif").provenance(None)
    assert known and known.reference == f"bake:{tiny_sif.name}@sha256:{sha256_of(tiny_sif)}"
    assert known.lock == sha256_of(home / "pylock.mine.toml")
    assert not list(home.rglob("ran")) and not list((home / "tmp").iterdir())
