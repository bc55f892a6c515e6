"""The real tools that dev/stack put in place, and how tests call them: EasyBuild, the module tools, Slurm.

The fixtures that hand these out are in conftest.py. Nothing here touches the home or the modules of whoever runs them.
"""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from tests.preloaded import EASYBUILD, call

CHECKOUT = Path(__file__).resolve().parent.parent
TIMEOUT = 600.0
"""Seconds after which a hanging tool fails its test instead of blocking the run."""

Done = subprocess.CompletedProcess[str]
KEPT = ("PATH", "LANG", "TZ", "CI", "HPCMOD_DEV_DIR")
"""What a tool under test sees of the environment of pytest; everything else is stated by the test."""


@dataclass(frozen=True)
class Stack:
    """Where each real tool lies. The paths may be missing on a machine where dev/stack made only some parts."""

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
        """Name those of the given fields whose path does not exist."""
        return [name for name in names if not getattr(self, name).exists()]

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """Make the environment of a tool under test: ours first on PATH, a home of its own, no module tool yet."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        places = [str(self.python.parent), str(self.apptainer.parent), *kept.get("PATH", os.defpath).split(os.pathsep)]
        path = os.pathsep.join(dict.fromkeys(places))  # Lmod drops what is named twice, and that is not a trace of ours
        own = {"PATH": path, "HOME": str(home), "USER": getpass.getuser(), "LMOD_PAGER": "none", "LC_ALL": "C.UTF-8"}
        return {**kept, **own, "EB_PYTHON": str(self.python), **more}


def find_stack() -> Path:
    """Return the directory dev/stack uses when nobody names another."""
    return Path(os.environ.get("HPCMOD_DEV_DIR", f"/var/tmp/hpcmod-dev-{getpass.getuser()}"))


def read_stack(root: Path) -> Stack | None:
    """Read what dev/stack wrote in its stack.env; None where it has not run."""
    try:
        lines = (root / "stack.env").read_text().splitlines()
    except OSError:
        return None
    values = dict(line.partition("=")[::2] for line in lines)
    names = [each.name for each in fields(Stack) if each.name != "root"]
    return Stack(root, *(Path(values.get(f"HPCMOD_STACK_{name.upper()}", "/nonexistent")) for name in names))


def write_eb(stack: Stack, directory: Path) -> Path:
    """Write a program that runs EasyBuild as the script `eb` does at its end, and return its directory, for PATH.

    The script starts Python twice more to choose one; test_install.py runs it.
    """
    program = directory / "programs" / "eb"
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "${{EB_PYTHON:-{stack.python}}}" -m easybuild.main "$@"\n')
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
        """Return the lines of bash that define `module`."""
        if self.name == "lmod":
            return f"source {self.stack.lmod_init}\n"
        # EasyBuild looks for the literal path in the function's text
        return f'module() {{ eval "$({self.stack.modulecmd} bash "$@")"; }}\nexport -f module\n'

    def environment(self, **more: str) -> dict[str, str]:
        """Make the environment in which EasyBuild finds this module tool."""
        if self.name == "lmod":
            return self.stack.environment(self.home, LMOD_CMD=str(self.stack.lmod_cmd), **more)
        function = f'() {{  eval "$({self.stack.modulecmd} bash "$@")"\n}}'
        env = {"MODULES_CMD": str(self.stack.modulecmd), "BASH_FUNC_module%%": function}
        return {**self.stack.environment(self.home), **env, **more}

    def __call__(self, snippet: str, *modulepath: Path, cwd: Path | None = None, **env: str) -> Done:
        """Run `snippet` in bash with `module` at hand and these directories in MODULEPATH; more variables by name."""
        use = "".join(f"module use '{path}'\n" for path in reversed(modulepath))
        base = self.stack.environment(self.home, **env)
        return run(["bash", "--norc", "-c", self.prologue() + use + snippet], base, cwd or self.home)


@dataclass(frozen=True)
class EasyBuild:
    """Runs the real `eb` with a prefix of its own; source path: own cache first (writable), then `central`."""

    stack: Stack
    top: Path
    central: Path
    modules_tool: str = "lmod"
    syntax: str = "Lua"
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> Path:
        """Where it installs: software/ and modules/all/ are below."""
        return self.top / "eb"

    @property
    def modules(self) -> Path:
        """The directory to put in MODULEPATH."""
        return self.prefix / "modules" / "all"

    def environment(self) -> dict[str, str]:
        """Make the environment `eb` runs in."""
        tool = {"lmod": "Lmod", "envmodules": "EnvironmentModules"}[self.modules_tool]
        own = {
            "EASYBUILD_PREFIX": str(self.prefix),
            "EASYBUILD_SOURCEPATH": f"{self.prefix / 'sources'}:{self.central}",
            "EASYBUILD_ROBOT_PATHS": f"{CHECKOUT / 'easyconfigs'}:",
            "EASYBUILD_TMPDIR": str(self.top / "tmp"),
            "EASYBUILD_MODULES_TOOL": tool,
            "EASYBUILD_MODULE_SYNTAX": self.syntax,
            "FANCYLOGGER_IGNORE_MPI4PY": "1",
            "PYTHONOPTIMIZE": "0",  # `python -O`, the default, compiles the standard library anew in each `eb`
        }
        return ModuleTool(self.stack, self.top, self.modules_tool).environment(**{**own, **self.variables})

    def command(self, *args: str | Path) -> list[str]:
        """Return what the script `eb` runs. It starts Python twice more to choose one; test_install.py runs it."""
        return [str(self.stack.python), "-m", "easybuild.main", *map(str, args)]

    def __call__(self, *args: str | Path, cwd: Path | None = None, **env: str) -> Done:
        """Run `eb ARGS`; stderr is joined to stdout. The caller judges the return code."""
        given = ["eb", *map(str, args)]
        environ = {**self.environment(), **env}
        done = call(self.stack.python, EASYBUILD, given, environ, cwd or self.top, joined=True)
        if done:
            return done
        argv = ["bash", "-c", 'exec "$@" 2>&1', "eb", *self.command(*args)]
        return run(argv, environ, cwd or self.top)


@dataclass(frozen=True)
class Cluster:
    """A throw-away Slurm cluster that is up: two virtual nodes, nid001 and nid002, and a login node."""

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
    """End a cluster and everything that runs on it."""
    run([str(CHECKOUT / "dev" / "cluster"), "down", str(cluster.dir)], os.environ)
