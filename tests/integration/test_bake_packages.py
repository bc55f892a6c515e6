"""A new image from a base image and requirements: the real pip of a real image, without root, engine or network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.images.trust.provenance import read_provenance
from hpcmod.packages.values.lockfile import parse_package_lock
from tests.integration.conftest import sha256_of
from tests.stack import Done, Stack, run
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

PREFIX = "/opt/miniconda3/envs/pytorch"
SHOW = "import einops, needy, packaging; print(einops.version, needy.version, packaging.__version__, einops.__file__)"
INSIDE = "/opt/hpcmod-packages/1/lib/python3.11/site-packages/einops.py"


@dataclass(frozen=True)
class Baker:
    """A user who makes images and has a directory of wheels."""

    stack: Stack
    home: Path
    environ: dict[str, str]

    def __call__(self, *words: str | Path) -> Done:
        offline = ["--wheel-dir", self.home / "wheels", "--no-index"]
        argv = [self.stack.python.parent / "hpcmod", "bake", *words, *offline]
        return run(list(map(str, argv)), self.environ, self.home)

    def must(self, *words: str | Path) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def seen(self, sif: Path) -> list[str]:
        """Return what the image's Python imports, with no bind mounts or modules."""
        argv = [str(self.stack.apptainer), "exec", str(sif), f"{PREFIX}/bin/python", "-c", SHOW]
        done = run(argv, self.environ, self.home)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture
def baker(stack: Stack, tmp_path: Path) -> Baker:
    for version in ("0.8.0", "0.8.1"):
        make_wheel(tmp_path / "wheels", "einops", version, scripts={"einops-tool": "einops:main"})
    make_wheel(tmp_path / "wheels", "needy", "1.0", requires=["einops>=0.8", "click"])
    make_wheel(tmp_path / "wheels", "clash", "1.0", requires=["packaging<20"])
    (tmp_path / "requirements.txt").write_text("needy  # needs einops and click\neinops<0.8.1\n")
    (tmp_path / "tmp").mkdir()
    own = {"HPCMOD_SITE": "generic", "HPCMOD_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    return Baker(stack, tmp_path, stack.environment(tmp_path, **own))


def test_an_image_is_made_from_requirements_and_again_from_its_lock(baker: Baker, tiny_sif: Path) -> None:
    home = baker.home
    asked = (tiny_sif, "-r", home / "requirements.txt")
    done = baker(*asked, "-o", home / "mine.sif")
    assert (done.returncode, done.stdout) == (0, f"{home / 'mine.sif'}\n"), done.stderr
    assert baker.seen(home / "mine.sif") == ["0.8.0", "1.0", baker.stack.packaging, INSIDE]
    lock = parse_package_lock((home / "pylock.mine.toml").read_text(), "pylock.mine.toml")
    assert (lock.state.requirements, lock.lines) == (
        ("needy", "einops<0.8.1"),
        (
            f"einops==0.8.0 --hash=sha256:{sha256_of(home / 'wheels/einops-0.8.0-py3-none-any.whl')}",
            f"needy==1.0 --hash=sha256:{sha256_of(home / 'wheels/needy-1.0-py3-none-any.whl')}",
        ),
    )
    known = read_provenance(home / "mine.sif")
    assert known and known.reference == f"bake:{tiny_sif.name}@sha256:{sha256_of(tiny_sif)}"

    make_wheel(home / "wheels", "needy", "2.0")
    locked = (tiny_sif, "--lock", home / "pylock.mine.toml")
    made = json.loads(baker.must(*locked, "-o", home / "new/again.sif", "--json"))
    assert made["sha256"] == sha256_of(home / "new/again.sif") == sha256_of(home / "mine.sif")
    assert (made["added"], made["commands"]) == (["einops==0.8.0", "needy==1.0"], ["einops-tool"])
    assert (made["requirements"], made["lock"]) == (["needy", "einops<0.8.1"], str(home / "pylock.mine.toml"))
    make_wheel(home / "wheels", "needy", "1.0", files={"needy.py": "evil = True\n"})
    refused = baker(*locked, "-o", home / "three.sif")
    assert (refused.returncode, "does not match its hash" in refused.stderr) == (4, True), refused.stderr
    assert not list(home.glob("*three*")) and not list((home / "tmp").iterdir())
