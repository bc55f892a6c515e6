"""What is tried with faults: for each verb a state before it, the command, and how to see that all is well after it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.corpus import make_image
from tests.integration.conftest import write_easyconfig
from tests.oci_corpus import f, tar_bytes, write_layout
from tests.stack import ModuleTool, Stack

Words = tuple[str, ...]


@dataclass(frozen=True)
class Ground:
    """A directory in which a verb is tried; everything of it is below `top`."""

    stack: Stack
    top: Path

    @property
    def catalogue(self) -> Path:
        return self.top / "catalogue"

    def environment(self) -> dict[str, str]:
        """Make the environment of the one who tries: Lmod, a home and an EasyBuild of their own."""
        home = self.top / "home"
        home.mkdir(parents=True, exist_ok=True)
        return ModuleTool(self.stack, home, "lmod").environment(
            HPCMOD_SITE="generic",
            HPCMOD_CATALOGUE=str(self.catalogue),
            EASYBUILD_PREFIX=str(self.top / "eb"),
            EASYBUILD_MODULES_TOOL="Lmod",
            EASYBUILD_MODULE_SYNTAX="Lua",
            PYTHONDONTWRITEBYTECODE="1",
        )

    def argv(self, words: Words) -> list[str]:
        """Make the command line of a verb."""
        return [str(self.stack.python.parent / "hpcmod"), *words]

    def does(self, *words: str) -> None:
        """Run a verb that must succeed."""
        argv = self.argv(words)
        done = subprocess.run(argv, env=self.environment(), cwd=self.top, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")


@dataclass(frozen=True)
class Scene:
    """One verb on one state."""

    words: Words
    """The command; `{top}` stands for the directory of the ground."""
    prepare: Callable[[Ground], None]
    checks: tuple[Words, ...] = ()
    """Verbs that must succeed on the result."""
    later: str = ""
    """Beginning of the paths that the verb may leave for its next run to remove."""


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


def _bundled(ground: Ground) -> None:
    _fetched(ground)
    ground.does("bundle", "export", "out/b.tar", "source/Toy-1.0.eb", "source/toy.sif")


def _installed(ground: Ground) -> None:
    _sources(ground)
    ground.does("install", "source/Toy-1.0.eb")


def _empty_catalogue(ground: Ground) -> None:
    _sources(ground)
    ground.does("catalogue", "init", str(ground.catalogue))


def _publish(version: str) -> Words:
    return ("publish", "source/toy.sif", "--name", "Toy", "--version", version, "--no-slurm", "--alias", "stable")


def _published(ground: Ground) -> None:
    _empty_catalogue(ground)
    ground.does(*_publish("1.0"))


def _published_twice(ground: Ground) -> None:
    _published(ground)
    ground.does(*_publish("2.0"), "--alias", "new")


def _deprecated(ground: Ground) -> None:
    _published(ground)
    ground.does("deprecate", "Toy/1.0", "--until", "2099-01-01")


def _retired(ground: Ground) -> None:
    _published_twice(ground)
    ground.does("retire", "Toy/1.0")


def _advised(ground: Ground) -> None:
    _published(ground)
    (ground.catalogue / "advisories").mkdir(exist_ok=True)
    (ground.catalogue / "advisories" / "a.toml").write_text(
        'title = "t"\ntext = "x"\nsource = "https://example.org"\nissued = 2026-01-01\nexpires = 2099-01-01\n'
    )


_CHECKED: tuple[Words, ...] = (("verify", "Toy/1.0"), ("ls",))

SCENES: dict[str, Scene] = {
    "fetch": Scene(("fetch", "source/small.sif", "-o", "out/x.sif"), _fetched, (("verify", "out/x.sif"),)),
    "convert": Scene(("convert", "oci:source/layout", "out/x.sif"), _fetched, (("verify", "out/x.sif"),)),
    "bundle export": Scene(("bundle", "export", "out/b.tar", "source/Toy-1.0.eb", "source/toy.sif"), _fetched),
    "bundle import": Scene(("bundle", "import", "out/b.tar", "-o", "out/here"), _bundled),
    "install": Scene(("install", "source/Toy-1.0.eb"), _sources),
    "update": Scene(("update", "Toy"), _installed),
    "remove": Scene(("remove", "Toy/1.0"), _installed),
    "catalogue init": Scene(("catalogue", "init", "{top}/catalogue"), _sources),
    "publish": Scene(_publish("1.0"), _empty_catalogue, _CHECKED, "home/.local/state/hpcmod/staging/"),
    "alias": Scene(("alias", "Toy/1.0", "new"), _published, _CHECKED),
    "promote": Scene(("promote", "Toy/1.0"), _published_twice, _CHECKED),
    "deprecate": Scene(("deprecate", "Toy/1.0", "--until", "2099-01-01"), _published, _CHECKED),
    "restore": Scene(("restore", "Toy/1.0"), _deprecated, _CHECKED),
    "retire": Scene(("retire", "Toy/1.0"), _published_twice, (("ls",),)),
    "undo": Scene(("undo", "2"), _published_twice, _CHECKED),
    "gc": Scene(("gc", "--days", "0"), _retired, (("verify", "Toy/2.0"),), "catalogue/.trash/"),
    "catalogue rebuild": Scene(("catalogue", "rebuild"), _published, _CHECKED),
    "advisory refresh": Scene(("advisory", "refresh"), _advised, _CHECKED),
    "docs": Scene(("docs", "out/pages"), _published),
    "site setup": Scene(("site", "setup", "--catalogue", "catalogue", "--output", "out/site"), _empty_catalogue),
    "job": Scene(("job", "Toy", "-o", "x.sh", "-t", "5", "--", "hostname"), _installed),
}
"""By verb. `build` is left out: other programs write for it, and tests of its own kill it."""

_VOLATILE = (
    re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"),
    re.compile(r"\b\d{8}[.-]\d{6}\b"),
    re.compile(r"\b\d{9,}(\.\d+)?\b"),
)
_IGNORED = re.compile(
    r"(^|/)(\.locks/.*|.*\.guard|home/\.(cache|lmod\.d)/.*|.*\.log(\.bz2)?|.*_build_report.*|ebfiles_repo/.*|easybuild/.*|index\.jsonl)$"
)
_TEXTS = (".json", ".jsonl", ".eb", ".lua", ".sh", ".toml", ".html", ".md", "")


def signature(top: Path) -> dict[str, str]:
    """Describe all files below a directory: by path a digest of what they hold, times left out.

    Locks, logs and caches are left out. Of a journal only the verbs count: a change that failed and was made again has
    other numbers.
    """
    found = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if _IGNORED.search(name) or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = _digest(path)
    return found


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    data = path.read_bytes()
    if path.name == "journal.jsonl":
        return " ".join(sorted(set(re.findall(r'"verb": "(\w+)"', data.decode()))))
    if path.suffix in _TEXTS and len(data) < 1 << 20:
        text = data.decode(errors="replace")
        for pattern in _VOLATILE:
            text = pattern.sub("", text)
        data = text.encode()
    return hashlib.sha256(data).hexdigest()[:16]
