"""Commands to try with faults: for each one the state before it, its arguments, and checks of the result."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.catalogue.records.store import open_catalogue
from tests.conda_channel import index_channel, make_conda
from tests.corpus import make_image
from tests.foreign_recipes import EDF, EDF_BASE, LUMI, NGC, SAMTOOLS
from tests.host_libraries import make_host
from tests.integration.conftest import write_easyconfig
from tests.oci_corpus import f, tar_bytes, write_layout
from tests.registry import Registry, run_registry
from tests.small_base import make_small_base
from tests.stack import ModuleTool, Stack
from tests.unit.catalogue.stage import load
from tests.wheels import make_wheel

Words = tuple[str, ...]


@dataclass(frozen=True)
class Ground:
    """A directory in which a command is tried: every file that it may change is below `top`."""

    stack: Stack
    top: Path
    services: contextlib.ExitStack
    """Closed after the last trial: servers that the command needs."""
    words: dict[str, str] = field(default_factory=dict)
    """Values for names in braces in the command line, in addition to `{top}`."""

    @property
    def catalogue(self) -> Path:
        return self.top / "catalogue"

    @property
    def temporary(self) -> Path:
        """Return the directory for temporary files, which is not below `top`."""
        return self.top.parent / "tmp"

    def environment(self) -> dict[str, str]:
        """Return the environment of the command: Lmod, and its own home, cache and EasyBuild prefix."""
        home = self.top / "home"
        home.mkdir(parents=True, exist_ok=True)
        return ModuleTool(self.stack, home, "lmod").environment(
            TMPDIR=str(self.temporary),
            HPCMOD_SITE="generic",
            HPCMOD_CATALOGUE=str(self.catalogue),
            HPCMOD_CACHE=str(self.top / "cache"),
            LD_LIBRARY_PATH=f"{self.top}/host/cxi:{self.top}/host/lib64",
            EASYBUILD_PREFIX=str(self.top / "eb"),
            EASYBUILD_MODULES_TOOL="Lmod",
            EASYBUILD_MODULE_SYNTAX="Lua",
            PYTHONDONTWRITEBYTECODE="1",
        )

    def argv(self, words: Words) -> list[str]:
        """Return the hpcmod command line with its paths and names filled in."""
        known = {"top": str(self.top), **self.words}
        return [str(self.stack.python.parent / "hpcmod"), *(word.format_map(known) for word in words)]

    def does(self, *words: str) -> str:
        """Run a command that must succeed; return its stdout."""
        argv = self.argv(words)
        done = subprocess.run(argv, env=self.environment(), cwd=self.top, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


@dataclass(frozen=True)
class Scene:
    """A command and the state in which it runs."""

    words: Words
    """The command; `{top}` is the directory of the ground."""
    prepare: Callable[[Ground], None]
    checks: tuple[Words, ...] = ()
    """Commands that must succeed on the result."""
    later: str = ""
    """Prefix of paths that the command may leave for its next run to remove."""
    says: str = ""
    """What it prints if it leaves them."""
    spare: str = ""
    """Prefix of optional paths: a cache."""
    same: bool = True
    """Whether two runs without a fault write the same bytes; otherwise only names and modes are compared."""
    easybuild: bool = False
    """Whether it runs EasyBuild."""
    children: bool = True
    """Whether to trace child processes too; a traced program cannot be setuid, as newuidmap must be."""


def _sources(ground: Ground) -> None:
    source = ground.top / "source"
    source.mkdir()
    make_image(source / "small.sif")
    write_layout(source / "layout", [tar_bytes([f("a", b"x" * 5000), f("b/c", b"y" * 9000)])])
    shutil.copy2(ground.stack.tiny_sif, source / "toy.sif")
    write_easyconfig(source, checksums=[hashlib.sha256((source / "toy.sif").read_bytes()).hexdigest()])


def _fetched(ground: Ground) -> None:
    _sources(ground)
    (ground.top / "out").mkdir()


def _with_channel(ground: Ground) -> None:
    """Make a conda channel in a directory, with a program and a package that it depends on."""
    _fetched(ground)
    channel = ground.top / "source/channel"
    make_conda(channel, "data", "1", {"share/data": "x"}, kind="tar.bz2")
    make_conda(channel, "tool", "1", {"bin/tool": "x"}, depends=["data"])
    index_channel(channel)


def _traced(ground: Ground) -> None:
    """Write the traces of two ranks."""
    _fetched(ground)
    for rank in (0, 1):
        event = {"ph": "X", "name": "step", "pid": 7, "tid": 7, "ts": rank, "dur": 2}
        (ground.top / "source" / f"rank{rank}.json").write_text(json.dumps({"traceEvents": [event] * 500}))


def _with_packages(ground: Ground) -> None:
    _fetched(ground)
    site = ground.top / "source/packages/venv/mine/lib/python3.12/site-packages"
    (site / "einops-0.8.0.dist-info").mkdir(parents=True)
    (site / "einops.py").write_text("x = 1")


def _editable(ground: Ground) -> None:
    _installed(ground)
    (ground.top / "out").mkdir()


def _bundled(ground: Ground) -> None:
    _fetched(ground)
    ground.does("bundle", "export", "out/b.tar", "source/Toy-1.0.eb", "source/toy.sif")


def _installed(ground: Ground) -> None:
    _sources(ground)
    ground.does("install", "source/Toy-1.0.eb")


def _shared_prefix(ground: Ground) -> None:
    _sources(ground)
    (ground.top / "project").mkdir()
    (ground.top / "project").chmod(0o2775)


def _addable(ground: Ground) -> None:
    """Install Toy, and make two wheels that can be added to it."""
    _installed(ground)
    for name in ("one", "two"):
        make_wheel(ground.top / "source" / "wheels", name, "1.0")


def _listed(ground: Ground) -> None:
    """Install Toy, and write a list of packages to import."""
    _addable(ground)
    (ground.top / "source/list.txt").write_text("one==1.0\ntwo==0.9\n")


def _added(ground: Ground) -> None:
    _addable(ground)
    for name in ("one", "two"):
        ground.does("add", "Toy", name, *_WHEELS)


def _dropped(ground: Ground) -> None:
    """Make three states, the first of which `gc` may remove."""
    _added(ground)
    ground.does("drop", "Toy", "two", *_WHEELS)


def _required(ground: Ground) -> None:
    _addable(ground)
    (ground.top / "source/requirements.txt").write_text("two\n")


def _damaged(ground: Ground) -> None:
    _installed(ground)
    (ground.top / "eb/software/Toy/1.0/runscripts/get-master").unlink()


def _with_ipykernel(ground: Ground) -> None:
    _installed(ground)
    venv = ground.top / "eb/software/Toy/1.0/user-software/venv/toy"
    package = next(venv.glob("lib/python3*/site-packages")) / "ipykernel"
    package.mkdir()
    (package / "__init__.py").touch()


def _served(ground: Ground) -> None:
    _fetched(ground)
    registry: Registry = ground.services.enter_context(run_registry(ground.top.parent / "registry"))
    registry.push_layout(ground.top / "source" / "layout", "a", "1")
    ground.words["registry"] = registry.host


def _cached(ground: Ground) -> None:
    _served(ground)
    ground.does("fetch", "docker://{registry}/a:1", "-o", "out/x.sif")


def _dockerfile(ground: Ground) -> None:
    _fetched(ground)
    context = ground.top / "source" / "context"
    context.mkdir()
    base = make_small_base(ground.stack.base_image, ground.top / "source")
    (context / "Dockerfile").write_text(f"FROM oci:{base}\nCOPY a /opt/a\nRUN cp /opt/a /opt/b\n")
    (context / "a").write_text("a\n")


def _recipes(ground: Ground) -> None:
    _fetched(ground)
    source = ground.top / "source"
    for name, text in (
        *(("samtools/container.yaml", SAMTOOLS), ("lumi.eb", LUMI), ("pytorch/1.lua", NGC)),
        *(("edf/pytorch.toml", EDF), ("edf/common.toml", EDF_BASE)),
    ):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text)


def _tagged(ground: Ground) -> None:
    registry = ground.services.enter_context(run_registry(ground.top.parent / "registry"))
    registry.push_image("org/tool", [b""], tag="1")
    (ground.top / "source").mkdir()
    easyconfig = f"name = 'tool'\nversion = '1'\nimage = 'docker://{registry.host}/org/tool:1'\nchecksums = [None]\n"
    (ground.top / "source/tool.eb").write_text(easyconfig)


def _host_libraries(ground: Ground) -> None:
    _fetched(ground)
    make_host(ground.top)


def _empty_catalogue(ground: Ground) -> None:
    _sources(ground)
    ground.does("catalogue", "init", str(ground.catalogue))


def _publish(version: str) -> Words:
    return ("publish", "source/toy.sif", "--name", "Toy", "--version", version, "--no-slurm", "--alias", "stable")


def _published(ground: Ground) -> None:
    _empty_catalogue(ground)
    ground.does(*_publish("1.0"))


def _licensed(ground: Ground) -> None:
    _empty_catalogue(ground)
    (ground.top / "source/licence.txt").write_text("For science.\n")
    ground.does(*_publish("1.0"), "--licence", "source/licence.txt")


def _published_twice(ground: Ground) -> None:
    _published(ground)
    ground.does(*_publish("2.0"), "--alias", "new")


def _deprecated(ground: Ground) -> None:
    _published(ground)
    ground.does("catalogue", "deprecate", "Toy/1.0", "--until", "2099-01-01")


def _retired(ground: Ground) -> None:
    _published_twice(ground)
    ground.does("catalogue", "retire", "Toy/1.0")


def _advised(ground: Ground) -> None:
    _published(ground)
    (ground.catalogue / "advisories").mkdir(exist_ok=True)
    (ground.catalogue / "advisories" / "a.toml").write_text(
        'title = "t"\ntext = "x"\nsource = "https://example.org"\nissued = 2026-01-01\nexpires = 2099-01-01\n'
    )


def _other_profile(ground: Ground) -> None:
    _empty_catalogue(ground)
    profile = ground.top / "site.toml"
    profile.write_text('name = "here"\nextends = "generic"\n')
    ground.does(*_publish("1.0"), "--site", "site.toml")
    with profile.open("a") as file:
        file.write('[environment]\nOMP_PLACES = { value = "cores", why = "x" }\n')


def _wrong_modes(ground: Ground) -> None:
    _published(ground)
    for path in ground.catalogue.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)


def _loaded(ground: Ground) -> None:
    _sources(ground)
    ground.does("catalogue", "init", str(ground.catalogue), "--count-use")
    ground.does(*_publish("1.0"))
    catalogue = open_catalogue(ground.catalogue)
    for when in (1_778_000_000.0, 1_778_000_005.0, 1_780_500_000.0):
        load(catalogue, "Toy/1.0", when)


_CHANGES: Words = ("sh", "-c", "sed -i s/1/2/ /user-software/venv/*/lib/python3*/site-packages/one.py")

_WHEELS: Words = ("--wheel-dir", "source/wheels", "--no-index")

_CHECKED: tuple[Words, ...] = (("verify", "Toy/1.0"), ("ls",))

SCENES: dict[str, Scene] = {
    "fetch": Scene(("fetch", "source/small.sif", "-o", "out/x.sif"), _fetched, (("verify", "out/x.sif"),)),
    "fetch docker": Scene(
        ("fetch", "docker://{registry}/a:1", "-o", "out/x.sif"),
        _served,
        (("verify", "out/x.sif"), ("cache", "ls")),
        spare="cache/",  # the image may be complete although a blob could not be cached
    ),
    "profile": Scene(("profile", "source/rank0.json", "source/rank1.json", "-o", "out/trace.json"), _traced),
    "fetch oci": Scene(("fetch", "oci:source/layout", "-o", "out/x.sif"), _fetched, (("verify", "out/x.sif"),)),
    "bake": Scene(
        ("bake", "source/small.sif", "--packages", "source/packages", "-o", "out/x.sif", "--force"),
        _with_packages,
        (("verify", "out/x.sif"),),
    ),
    "build": Scene(
        ("build", "source/context", "--engine", "buildah", "-o", "out/x.sif"),
        _dockerfile,
        (("verify", "out/x.sif"),),
        same=False,
        children=False,
    ),
    "bake -r": Scene(
        ("bake", "Toy", "-r", "source/requirements.txt", "-o", "out/x.sif", "--force", *_WHEELS),
        _required,
        (("verify", "out/x.sif"),),
        children=False,
    ),
    "bake --conda": Scene(
        (
            *("bake", "source/small.sif", "--conda", "tool", "--channel", "source/channel"),
            *("-o", "out/x.sif", "--force"),
        ),
        _with_channel,
        (("verify", "out/x.sif"),),
        children=False,
    ),
    "cache gc": Scene(("cache", "gc", "--older-than", "0"), _cached, (("cache", "ls"),)),
    "bundle export": Scene(("bundle", "export", "out/b.tar", "source/Toy-1.0.eb", "source/toy.sif"), _fetched),
    "bundle import": Scene(("bundle", "import", "out/b.tar", "-o", "out/here"), _bundled),
    "import sif": Scene(("import", "sif", "--output", "out/ec", "source/toy.sif"), _fetched),
    "import shpc": Scene(("import", "shpc", "--output", "out/ec", "source/samtools/container.yaml"), _recipes),
    "import lumi-eb": Scene(("import", "lumi-eb", "--output", "out/ec", "source/lumi.eb"), _recipes),
    "import edf": Scene(("import", "edf", "--output", "out/ec", "source/edf/pytorch.toml"), _recipes),
    "import ngc": Scene(("import", "ngc", "--output", "out/ec", "source/pytorch/1.lua"), _recipes),
    "catalogue pin": Scene(("catalogue", "pin", "source/tool.eb"), _tagged),
    "install": Scene(("install", "source/Toy-1.0.eb"), _sources, easybuild=True),
    "install shared": Scene(
        ("install", "source/Toy-1.0.eb", "--prefix", "{top}/project"), _shared_prefix, easybuild=True
    ),
    "update": Scene(("update", "Toy"), _installed, easybuild=True),
    "remove": Scene(("remove", "Toy/1.0"), _installed),
    "repair": Scene(("repair", "Toy/1.0"), _damaged, (("verify", "Toy/1.0"),), same=False, easybuild=True),
    "add": Scene(("add", "Toy", "one", *_WHEELS), _addable, (("packages", "Toy"),), same=False, children=False),
    "add --from": Scene(
        ("add", "Toy", "--from", "source/list.txt", *_WHEELS),
        _listed,
        (("packages", "Toy"),),
        same=False,
        children=False,
    ),
    "drop": Scene(("drop", "Toy", "one", *_WHEELS), _added, (("packages", "Toy"),), same=False, children=False),
    "edit": Scene(("edit", "Toy", "--", *_CHANGES), _added, (("packages", "Toy"),), same=False, children=False),
    "rebase": Scene(("rebase", "Toy", *_WHEELS), _added, (("packages", "Toy"),), same=False, children=False),
    "packages": Scene(("packages", "Toy", "--use", "1"), _added, (("packages", "Toy"),), same=False),
    "packages gc": Scene(
        ("packages", "Toy", "--gc", "--keep", "0"), _dropped, (("packages", "Toy", "--history"),), same=False
    ),
    "kernel": Scene(("kernel", "Toy"), _with_ipykernel, children=False),
    "code": Scene(("code", "Toy", "--directory", "out"), _editable),
    "catalogue init": Scene(("catalogue", "init", "{top}/catalogue"), _sources),
    "publish": Scene(_publish("1.0"), _empty_catalogue, _CHECKED, "home/.local/state/hpcmod/staging/", easybuild=True),
    "install --accept-licence": Scene(("install", "--accept-licence", "--yes", "Toy/1.0"), _licensed, _CHECKED),
    "catalogue promote --alias": Scene(("catalogue", "promote", "Toy/1.0", "--alias", "new"), _published, _CHECKED),
    "catalogue promote": Scene(("catalogue", "promote", "Toy/1.0"), _published_twice, _CHECKED),
    "catalogue deprecate": Scene(("catalogue", "deprecate", "Toy/1.0", "--until", "2099-01-01"), _published, _CHECKED),
    "catalogue restore": Scene(("catalogue", "restore", "Toy/1.0"), _deprecated, _CHECKED),
    "catalogue retire": Scene(("catalogue", "retire", "Toy/1.0"), _published_twice, (("ls",),)),
    "catalogue undo": Scene(("catalogue", "undo", "2"), _published_twice, _CHECKED),
    "undo": Scene(("undo", "Toy"), _dropped, (("packages", "Toy"),), same=False),
    "catalogue gc": Scene(
        ("catalogue", "gc", "--days", "0"),
        _retired,
        (("verify", "Toy/2.0"),),
        "catalogue/.trash/",
        "not deleted from the disk",
    ),
    "catalogue rebuild": Scene(("catalogue", "rebuild"), _published, _CHECKED),
    "catalogue refresh": Scene(
        ("catalogue", "refresh", "--site", "site.toml"), _other_profile, _CHECKED, easybuild=True
    ),
    "catalogue move": Scene(
        ("catalogue", "move", "{top}/moved"), _published, (("catalogue", "verify", "--catalogue", "{top}/moved"),)
    ),
    "catalogue verify": Scene(
        ("catalogue", "verify", "--fix-modes"), _wrong_modes, (*_CHECKED, ("catalogue", "verify"))
    ),
    "catalogue usage": Scene(("catalogue", "usage", "--fold"), _loaded, _CHECKED),
    "catalogue advisory refresh": Scene(("catalogue", "advisory", "refresh"), _advised, _CHECKED),
    "catalogue docs": Scene(("catalogue", "docs", "out/pages"), _published),
    "site new": Scene(("site", "new", "--name", "ours", "-o", "site.toml"), _empty_catalogue),
    "site use": Scene(("site", "use", "lumi"), _empty_catalogue),
    "site setup": Scene(("site", "setup", "--catalogue", "catalogue", "--output", "out/site"), _empty_catalogue),
    "site netstack capture": Scene(
        ("site", "netstack", "capture", "--output", "{top}/out", "--name", "1", "libfabric.so.1"), _host_libraries
    ),
    "job": Scene(("job", "Toy", "-o", "x.sh", "-t", "5", "--", "hostname"), _installed),
}
"""Scenes by command."""

NOT_TRIED = {
    "images": {"cache ls", "push"},
    "compat": {"site netstack check", "site netstack show"},
    "catalogue": {
        *("ls", "search", "info", "use", "outdated", "compat", "verify", "exec", "shell", "site env"),
        *("catalogue journal", "catalogue advisory ls"),
    },
    "jobs": {"launch"},
    "doctor": {
        "doctor",
        *(f"site {name}" for name in ("check", "detect", "ls", "settings", "show", "binds", "completion")),
    },
    "notebooks": {"jupyter"},
    "runs": {"check", "why", "bench"},
    "lint": {"lint"},
}
"""By room, the commands without a scene. Most only read, and `push` changes only a registry; `exec`, `shell` and
`launch` run a program, and write nothing themselves. `jupyter` and `bench` take as long as a job:
tests/e2e/test_interactive.py and test_nothing_left.py stop them."""
