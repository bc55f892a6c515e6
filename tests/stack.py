"""The real tools installed by dev/stack, and how tests call them: EasyBuild, the module tools, Slurm.

The fixtures for these are in conftest.py. Nothing here touches the home directory or the modules of the user.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from tests.preloaded import EASYBUILD, HPCMOD, call

CHECKOUT = Path(__file__).resolve().parent.parent
TIMEOUT = 600.0
"""Seconds after which a hanging tool fails its test instead of blocking the run."""

Done = subprocess.CompletedProcess[str]
KEPT = ("PATH", "LANG", "TZ", "CI", "HPCMOD_DEV_DIR")
"""Variables that a tool under test inherits from pytest; the test sets all others."""


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait until a condition holds; return whether it did in time."""
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return holds


@dataclass(frozen=True)
class Stack:
    """Paths of all real tools. Some may not exist on a machine where dev/stack installed only some parts."""

    root: Path
    python: Path
    apptainer: Path
    lmod_init: Path
    lmod_cmd: Path
    modulecmd: Path
    tiny_sif: Path
    torch_sif: Path
    jupyter_sif: Path
    base_image: Path
    wheels: Path

    def missing(self, *names: str) -> list[str]:
        """Return the given fields whose path does not exist."""
        return [name for name in names if not getattr(self, name).exists()]

    @property
    def packaging(self) -> str:
        """Version of the package `packaging` in the tiny image: the newest when it was built."""
        from hpcmod.images import Sif

        return {package.name: package.version for package in Sif(self.tiny_sif).facts().packages}["packaging"]

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """Return the environment of a tool under test: our tools first on PATH, its own home directory, no module tool
        yet.
        """
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        places = [str(self.python.parent), str(self.apptainer.parent), *kept.get("PATH", os.defpath).split(os.pathsep)]
        path = os.pathsep.join(dict.fromkeys(places))  # Lmod drops duplicates, which is not hpcmod's doing
        own = {"PATH": path, "HOME": str(home), "USER": getpass.getuser(), "LMOD_PAGER": "none", "LC_ALL": "C.UTF-8"}
        own["LMOD_TERM_WIDTH"] = "80"  # otherwise, each start of Lmod starts two programs to find that out
        own["EASYBUILD_DISABLE_GENERATE_DEVEL_MODULE"] = "1"  # so that `eb` loads each module only once
        return {**kept, **own, "EB_PYTHON": str(self.python), **more}


def find_stack() -> Path:
    """Return the default directory of dev/stack, or HPCMOD_DEV_DIR."""
    return Path(os.environ.get("HPCMOD_DEV_DIR", f"/var/tmp/hpcmod-dev-{getpass.getuser()}"))


def read_stack(root: Path) -> Stack | None:
    """Read the stack.env written by dev/stack; None if it has not run."""
    try:
        lines = (root / "stack.env").read_text().splitlines()
    except OSError:
        return None
    values = dict(line.partition("=")[::2] for line in lines)
    names = [each.name for each in fields(Stack) if each.name != "root"]
    return Stack(root, *(Path(values.get(f"HPCMOD_STACK_{name.upper()}", "/nonexistent")) for name in names))


START = 'import atexit, gc, runpy; atexit.register(gc.freeze); runpy._run_module_as_main("easybuild.main")'
"""Start EasyBuild, which ends without searching all its objects for garbage."""


def write_eb(stack: Stack, directory: Path) -> Path:
    """Write an `eb` that starts EasyBuild directly, and return its directory, for PATH.

    The real script `eb` starts Python two more times to choose one; test_install.py runs it.
    """
    program = directory / "programs" / "eb"
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "${{EB_PYTHON:-{stack.python}}}" -c \'{START}\' "$@"\n')
        program.chmod(0o755)
    return program.parent


def run(argv: list[str], env: Mapping[str, str], cwd: Path | None = None, timeout: float = TIMEOUT) -> Done:
    """Run a tool to its end; stdout and stderr as text, no stdin."""
    return subprocess.run(
        argv, env=dict(env), cwd=cwd, timeout=timeout, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


@dataclass(frozen=True)
class ModuleTool:
    """Runs bash snippets with a real `module` command: `lmod` or `envmodules` (Environment Modules 5)."""

    stack: Stack
    home: Path
    name: str

    def prologue(self) -> str:
        """Return the bash lines that define `module`."""
        if self.name == "lmod":
            return f"source {self.stack.lmod_init}\n"
        # EasyBuild looks for the literal path in the function's text
        return f'module() {{ eval "$({self.stack.modulecmd} bash "$@")"; }}\nexport -f module\n'

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment in which EasyBuild finds this module tool."""
        if self.name == "lmod":
            return self.stack.environment(self.home, LMOD_CMD=str(self.stack.lmod_cmd), **more)
        function = f'() {{  eval "$({self.stack.modulecmd} bash "$@")"\n}}'
        env = {"MODULES_CMD": str(self.stack.modulecmd), "BASH_FUNC_module%%": function}
        return {**self.stack.environment(self.home), **env, **more}

    def __call__(self, snippet: str, *modulepath: Path, cwd: Path | None = None, **env: str) -> Done:
        """Run `snippet` in bash with `module` defined, and MODULEPATH as after a login; keywords set variables."""
        base = self.stack.environment(self.home, **env)
        if modulepath:
            base["MODULEPATH"] = ":".join([*map(str, modulepath), *filter(None, [base.get("MODULEPATH")])])
        return run(["bash", "--norc", "-c", self.prologue() + snippet], base, cwd or self.home)


@dataclass(frozen=True)
class EasyBuild:
    """Runs the real `eb` with its own prefix; source path: its own writable cache first, then `central`."""

    stack: Stack
    top: Path
    central: Path
    modules_tool: str = "lmod"
    syntax: str = "Lua"
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> Path:
        """Installation prefix, with software/ and modules/all/ below it."""
        return self.top / "eb"

    @property
    def modules(self) -> Path:
        """The directory to put in MODULEPATH."""
        return self.prefix / "modules" / "all"

    def environment(self) -> dict[str, str]:
        """Return the environment for `eb`."""
        tool = {"lmod": "Lmod", "envmodules": "EnvironmentModules"}[self.modules_tool]
        own = {
            "EASYBUILD_PREFIX": str(self.prefix),
            "EASYBUILD_SOURCEPATH": f"{self.prefix / 'sources'}:{self.central}",
            "EASYBUILD_ROBOT_PATHS": f"{CHECKOUT / 'easyconfigs'}:",
            "EASYBUILD_TMPDIR": str(self.top / "tmp"),
            "EASYBUILD_MODULES_TOOL": tool,
            "EASYBUILD_OUTPUT_STYLE": "basic",  # rich, which sigstore needs, breaks lines
            "EASYBUILD_MODULE_SYNTAX": self.syntax,
            "FANCYLOGGER_IGNORE_MPI4PY": "1",
            "PYTHONOPTIMIZE": "0",  # `python -O`, the default, recompiles the standard library in each `eb`
        }
        return ModuleTool(self.stack, self.top, self.modules_tool).environment(**{**own, **self.variables})

    def command(self, *args: str | Path) -> list[str]:
        """Return the command that starts EasyBuild, as `write_eb` does."""
        return [str(self.stack.python), "-c", START, *map(str, args)]

    def __call__(self, *args: str | Path, cwd: Path | None = None, **env: str) -> Done:
        """Run `eb ARGS` with stderr joined to stdout. The caller must check the return code."""
        given = ["eb", *map(str, args)]
        environ = {**self.environment(), **env}
        done = call(self.stack.python, EASYBUILD, given, environ, cwd or self.top, joined=True)
        if done:
            return done
        argv = ["bash", "-c", 'exec "$@" 2>&1', "eb", *self.command(*args)]
        return run(argv, environ, cwd or self.top)

    def hpcmod(self, *words: str | Path, cwd: Path | None = None, **env: str) -> Done:
        """Run `hpcmod WORDS`, which starts this `eb`. The caller must check the return code."""
        own = self.environment()
        environ = {**own, "PATH": f"{write_eb(self.stack, self.top)}:{own['PATH']}", **env}
        line = [str(self.stack.python.parent / "hpcmod"), *map(str, words)]
        return call(self.stack.python, HPCMOD, line, environ, cwd or self.top) or run(line, environ, cwd or self.top)


@dataclass(frozen=True)
class Cluster:
    """A running throw-away Slurm cluster: two virtual nodes, nid001 and nid002, and a login node."""

    stack: Stack
    dir: Path

    def __call__(self, *argv: str | Path, cwd: Path | None = None, timeout: float = TIMEOUT, **env: str) -> Done:
        """Run a command on the login node, as the user who runs the tests."""
        line = [str(CHECKOUT / "dev" / "cluster"), "exec", str(self.dir), *map(str, argv)]
        return run(line, {**self.stack.environment(Path.home()), **env}, cwd or self.dir, timeout)


def start_cluster(stack: Stack, name: str, *options: str) -> Cluster:
    """Start a cluster (`-n NODES -c CPUS -g GPUS`); its directory is in the stack, so that --clean finds it."""
    folder = stack.root / "clusters" / name
    started = run([str(CHECKOUT / "dev" / "cluster"), "up", str(folder), *options], os.environ)
    if started.returncode:
        raise RuntimeError(f"dev/cluster up failed:\n{started.stdout}{started.stderr}")
    return Cluster(stack, folder)


def stop_cluster(cluster: Cluster) -> None:
    """Stop a cluster and everything that runs on it."""
    run([str(CHECKOUT / "dev" / "cluster"), "down", str(cluster.dir)], os.environ)
