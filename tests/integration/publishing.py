"""A site that publishes with the real `hpcmod publish` and `eb` into its own catalogue, and users who load from it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import corpus
from tests.integration.conftest import unpack
from tests.preloaded import HPCMOD, call
from tests.stack import Done, ModuleTool, Stack, run, write_eb


@dataclass(frozen=True)
class Site:
    """A catalogue, with methods to publish to it and to load from it."""

    tool: ModuleTool
    top: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def stack(self) -> Stack:
        return self.tool.stack

    @property
    def catalogue(self) -> Path:
        return self.top / "shop"

    @property
    def modules(self) -> Path:
        """The directory that users have in MODULEPATH."""
        return self.catalogue / "modules" / "all"

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of an admin whose `eb` is configured for an unrelated prefix and naming scheme."""
        own = {
            "HPCMOD_CATALOGUE": str(self.catalogue),
            "HPCMOD_SITE": "generic",
            "EASYBUILD_PREFIX": str(self.top / "own"),
            "EASYBUILD_MODULE_NAMING_SCHEME": "HierarchicalMNS",
        }
        found = self.tool.environment(**{**own, **self.variables, **more})
        path = f"{write_eb(self.stack, self.tool.home)}:{found['PATH']}"
        return found if "PATH" in more else {**found, "PATH": path}

    def argv(self, *words: str | Path) -> list[str]:
        return [str(self.stack.python.parent / "hpcmod"), *map(str, words)]

    def hpcmod(self, *words: str | Path, **env: str) -> Done:
        """Run a verb as an admin with umask 077; the caller checks the return code."""
        environ, line = self.environment(**env), self.argv(*words)
        done = call(self.stack.python, HPCMOD, line, environ, self.top, umask=0o077)
        return done or run(["bash", "-c", 'umask 077; exec "$@"', "hpcmod", *line], environ, self.top)

    def does(self, *words: str | Path, **env: str) -> Done:
        """Run a verb and require that it succeeds."""
        done = self.hpcmod(*words, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        """Start a verb in its own process group."""
        return subprocess.Popen(
            self.argv(*words),
            env=self.environment(),
            cwd=self.top,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def publish(self, image: Path, version: str, *more: str, **env: str) -> Done:
        """Publish Toy, without the Slurm that the test machine may have."""
        return self.hpcmod("publish", image, "--name", "Toy", "--version", version, "--no-slurm", *more, **env)

    def published(self, image: Path, version: str, *more: str) -> None:
        done = self.publish(image, version, *more)
        assert done.returncode == 0, done.stdout + done.stderr

    def user(self, snippet: str, **env: str) -> Done:
        """Run a snippet as a user with the catalogue in MODULEPATH."""
        return self.tool(snippet, self.modules, **env)

    def loaded(self, module: str) -> str:
        """Load a module, start its image and return the image's generation; empty if it does not load."""
        done = self.user(f"module load {module} >&2 && singularity exec $SIF cat /generation")
        return done.stdout.strip().rpartition(" ")[2] if done.returncode == 0 else ""

    def record(self, version: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.catalogue / f"records/Toy/{version}.json").read_text())
        return found

    def journal(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.catalogue / "journal.jsonl").read_text().splitlines()]

    def files(self) -> dict[str, tuple[int, int]]:
        """Return size and modification time (ns) of each file by relative path, without locks; (0, 0) for the index."""
        found = {
            str(path.relative_to(self.catalogue)): path.stat() for path in self.catalogue.rglob("*") if path.is_file()
        }
        return {
            name: (0, 0) if name in ("index.json", "packages.json") else (stat.st_size, stat.st_mtime_ns)
            for name, stat in found.items()
            if not name.startswith(".locks/")
        }


def make_site(tool: ModuleTool, top: Path) -> Site:
    """Create a site with an empty catalogue."""
    site = Site(tool, top)
    site.does("catalogue", "init", site.catalogue)
    return site


def make_vendor_image(tiny_sif: Path, directory: Path) -> Path:
    """Create vendor-solver_3.1.sif, where `solve` in /usr/local/bin and `mesh` outside PATH print their arguments."""
    root = unpack(tiny_sif, directory / "vendor-root")
    for name in ("usr/local/bin/solve", "opt/vendor/bin/mesh"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/bash\nprintf "%s" "{path.name}:"; printf " <%s>" "$@"; echo\n', encoding="utf-8")
        path.chmod(0o755)
    body = corpus.pack(root, directory / "vendor-body", "-noI", "-noD", "-noF", "-noX").read_bytes()
    return corpus.make_sif(directory / "vendor-solver_3.1.sif", body)
