"""A new image from a conda environment and a base image: real solver, real containers, a channel in a directory."""

from __future__ import annotations

import json
import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.images.trust.provenance import read_provenance
from tests import corpus
from tests.conda_channel import PLACEHOLDER, CondaFile, dist_info, index_channel, make_conda
from tests.integration.conftest import THOROUGH, EasyBuild, ModuleTool, sha256_of, unpack
from tests.stack import Done, Stack, run
from tests.walkthroughs import blocks
from tests.wheels import make_wheel

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


if THOROUGH:

    @pytest.fixture
    def stranger(person: Person, tiny_sif: Path) -> Person:
        """Files of the page: the tiny image's Python 3.11 as a conda package, a script as samtools, a plain base."""
        home = person.home
        root = unpack(tiny_sif, home / "root")
        python, channel = root / OF_TINY, home / "channel"
        files = {"bin/python3.11": CondaFile((python / "bin/python3.11").read_bytes(), 0o755)}
        files |= {f"bin/{name}": CondaFile(link="python3.11") for name in ("python", "python3")}
        for path in sorted((python / "lib/python3.11").rglob("*")):
            if path.is_file() and not {"site-packages", "__pycache__"} & set(path.parts):
                files[str(path.relative_to(python))] = CondaFile(path.read_bytes())
        files["lib/python3.11/site-packages/README.txt"] = CondaFile(b"as in conda-forge's")
        make_conda(channel, "python", "3.11.2", files)
        pure = {"site-packages/pure.py": "def main():\n    print('pure')\n", **dist_info("pure", "1.0")}
        make_conda(channel, "pure", "1.0", pure, depends=["python"], python=True, entry_points=["pure = pure:main"])
        samtools = {"bin/samtools": CondaFile(PROGRAM.encode(), 0o755)}
        make_conda(channel, "samtools", "1.19", samtools, depends=["greet-data"])
        make_channel(channel)
        make_plain(root, home / "ubuntu.sif")
        make_wheel(home / "wheels", "einops", "0.8.1")
        (block,) = (one for one in blocks("bake", "console") if "cat environment.yml" in one)
        text = textwrap.dedent(block).partition("\n")[2]
        text = text.replace("conda-forge", str(channel)).replace("3.12", "3.11")
        (home / "environment.yml").write_text(text.replace("- samtools", "- samtools\n  - pure"))
        return Person(
            person.stack, home, {**person.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(home / "wheels")}
        )

    def test_the_page_works_as_written(stranger: Person) -> None:
        """Run the commands for a conda environment in one shell."""
        text = "\n".join(blocks("bake", "console"))
        commands = [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("$ ")]
        first, last = (
            n for n, words in enumerate(commands) if "cat env" in words or "--lock pylock.mine.toml" in words
        )
        mine = commands[first : last + 1]
        assert len(mine) == 6
        tools = f"PATH={stranger.stack.python.parent}:{stranger.stack.apptainer.parent}:$PATH"
        done = run(
            ["bash", "-ec", "\n".join([tools, *mine]).replace("singularity", "apptainer -q")],
            stranger.environ,
            stranger.home,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"hello from {OWN}" in done.stdout.splitlines()
        assert sha256_of(stranger.home / "again.sif") == sha256_of(stranger.home / "mine.sif")
        show = "import os, pure; print(pure.__cached__, os.environ['CONDA_PREFIX'])"
        cached, prefix = stranger.inside(stranger.home / "mine.sif", "python", "-c", show)[0].split()
        assert cached == f"{OWN}/lib/python3.11/site-packages/__pycache__/pure.cpython-311.pyc"
        assert prefix == OWN
        locked = ("bake", "ubuntu.sif", "--lock", "pylock.mine.toml", "-o", "third.sif", "--json")
        made = json.loads(stranger.must(*locked))
        assert made["sha256"] == sha256_of(stranger.home / "mine.sif")
        assert (made["conda_prefix"], made["python"], made["added"]) == (OWN, "3.11", ["einops==0.8.1"])
        assert not list((stranger.home / "tmp").iterdir())

    def test_packages_are_added_to_a_module_of_the_image_and_become_an_image_again(
        stranger: Person, eb: EasyBuild, lmod: ModuleTool
    ) -> None:
        home, channel = stranger.home, stranger.home / "channel"
        asked = ("--conda", "python", "--conda", "greet-data", "--channel", channel)
        stranger.must("bake", "ubuntu.sif", *asked, "-o", "Mine.sif")
        stranger.must("import", "sif", "Mine.sif", "--output", home / "ec")
        (easyconfig,) = (home / "ec").rglob("*.eb")
        shutil.copy(home / "Mine.sif", eb.central)
        done = eb(easyconfig, HPCMOD_SITE="generic")
        assert done.returncode == 0, done.stdout
        mine = Person(stranger.stack, home, {**eb.environment(), **stranger.environ, "MODULEPATH": str(eb.modules)})
        added = mine.must("add", "Mine", "--conda", "greet<2", "--conda", "pure", "--channel", channel)
        assert added.splitlines() == ["greet: added 1.0 (conda)", "pure: added 1.0 (conda)"]
        mine.must("add", "Mine", "--conda", "greet", "--channel", channel)
        mine.must("undo", "Mine")
        assert mine.must("packages", "Mine").split()[:3] == ["greet", "1.0", "yours"]
        refused = mine("bake", "Mine", "-o", "baked.sif")
        assert (refused.returncode, "hpcmod bake CONTAINER --lock pylock.toml" in " ".join(refused.stderr.split())) == (
            2,
            True,
        )
        (home / "pylock.toml").write_text(mine.must("packages", "Mine", "--lock"))
        mine.must("bake", "Mine", "--lock", "pylock.toml", "-o", "baked.sif")
        lines = mine.inside(home / "baked.sif", "sh", "-c", "greet; pure; ls /opt")
        assert lines == [f"hello from {OWN}", "1.0", "pure", "hpcmod-conda"]
        mine.must("rebase", "Mine")
        assert not list((home / "tmp").iterdir())
