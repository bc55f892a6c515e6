"""Build a state: pip runs in the container into a node-local directory, which is packed into one file."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.replacing import replacing, scratch
from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.process import Completed, follow, run
from hpcmod.images import pack_directory
from hpcmod.machine.values.bind import Bind
from hpcmod.modules import write_venv
from hpcmod.modules.values.place import SOURCE_TIME, USER_LAYER_IN_CONTAINER
from hpcmod.packages.builder import Builder, container_environment
from hpcmod.packages.pip_settings import find_settings, find_unread
from hpcmod.packages.programs import copy_programs, read_pip_lists
from hpcmod.packages.sets import TEMPORARY, PackageSet
from hpcmod.packages.values.compare import check_unchanged, find_in_image
from hpcmod.packages.values.conda import CondaPart
from hpcmod.packages.values.plan import OWN_PIP, PackageTarget, StatePlan
from hpcmod.packages.values.report import explain_failure, explain_full, parse_pip_report
from hpcmod.packages.values.requirement import without_credentials, without_logins
from hpcmod.packages.values.state import Locked, State, StateOrigin

_SCRATCH = "hpcmod-packages"
_REPORT_LIMIT = 256 << 20  # bytes of pip's report
_LOG_LIMIT = 64 << 20  # bytes of what pip prints
_PACKED_MODE = 0o444
_SILENCE = 10.0  # seconds between two lines about pip
_DOING = ("Collecting ", "Downloading ", "Building ", "Installing ")
_LONGEST_TOLD = 120  # characters
_PROJECT = ("pyproject.toml", "setup.py")
"""Files of which a directory with the source of a package has one."""


def build_state(
    plan: StatePlan, own_set: PackageSet, builder: Builder, *, settle: Callable[[State], State] = lambda state: state
) -> State:
    """Install the packages of a plan, pack them into the set and return the state, which has no record yet.

    The caller must hold the lock of the set. After an error, nothing of the new state is left.

    `settle`: Records the state, makes it active and returns the active one. It is called before the temporary directory
        is removed, which may take seconds: a process killed meanwhile has done its work.

    Raises HpcmodError if pip refuses the plan, the index serves other files than before, or there is no space.
    """
    check_room_for(plan.target, own_set)
    with scratch_layer(builder.temporary) as layer:
        write_venv_in(layer, plan.target)
        if plan.lines or plan.conda.requirements:
            with contextlib.suppress(HpcmodError):  # pip cannot start in a damaged image, and says why
                copy_programs(plan.target, layer / plan.target.venv_path)
        plan = _install_conda(plan, layer, builder)
        locked = _run_pip(plan, layer, builder) if plan.lines else ()
        check_unchanged(plan.parent.locked if plan.parent else (), locked, "index")
        return settle(pack_layer(plan, locked, layer, own_set, builder))


def write_venv_in(layer: Path, target: PackageTarget) -> None:
    """Write an empty virtual environment into what a container sees at /user-software."""
    venv = layer / target.venv_path
    venv.parent.mkdir()
    write_venv(target.python, target.venv, venv)


def pack_layer(
    plan: StatePlan, locked: tuple[Locked, ...], layer: Path, own_set: PackageSet, builder: Builder
) -> State:
    """Compile and pack what is installed in a directory as the state of a plan, which has no record yet.

    `layer`: Directory of `scratch_layer`; its contents are moved.

    Raises HpcmodError if there is no space.
    """
    venv = layer / plan.target.venv_path
    packages = venv / "lib" / f"python{plan.target.python.version}" / "site-packages"
    if locked or plan.conda.packages:
        _compile(plan, layer, packages, builder)
    sizes, programs = read_pip_lists(packages)
    state = _make_state(plan, tuple(replace(package, size=sizes.get(package.name, 0)) for package in locked), builder)
    size, sha256 = _pack(layer, plan, own_set)
    return replace(state, programs=programs, size=size, sha256=sha256)


def resolve_packages(plan: StatePlan, builder: Builder) -> tuple[tuple[Locked, ...], CondaPart]:
    """Return what pip and conda would install for a plan; nothing is kept.

    Raises HpcmodError if conda or pip refuses the plan.
    """
    with scratch_layer(builder.temporary) as layer:
        write_venv_in(layer, plan.target)
        plan = _install_conda(plan, layer, builder)
        return _run_pip(plan, layer, builder, "--dry-run") if plan.lines else (), plan.conda


def check_room_for(target: PackageTarget, own_set: PackageSet) -> None:
    """Check that a set has space for another state.

    Raises HpcmodError if the file system or a quota is full.
    """
    cure = f"keep it elsewhere: hpcmod add {own_set.asked} --prefix DIRECTORY"
    if own_set.name == TEMPORARY:
        cure = "set TMPDIR to a directory on a larger disk"
    check_room([Need(own_set.tree.root, 1 << 20, 4, f"packages for {target.module}", cure)])


@contextlib.contextmanager
def scratch_layer(temporary: Path) -> Iterator[Path]:
    """Yield a private directory of this node for what a container sees at /user-software, until the end of the block.

    Only `.hpcmod` is in it, which is not packed. The directory of a killed process is removed first.
    """
    clear_leftovers(temporary, _SCRATCH)
    with scratch(temporary / _SCRATCH) as made:
        layer = Path(os.path.realpath(made.directory)) / "layer"  # the runtime cannot follow a path through /proc
        (layer / ".hpcmod" / "tmp").mkdir(parents=True)
        yield layer


def _install_conda(plan: StatePlan, layer: Path, builder: Builder) -> StatePlan:
    """Install the conda packages of a plan, if any, and return it with what was installed."""
    if not plan.conda.requirements:
        return plan
    from hpcmod.packages.conda.installing import install_conda
    from hpcmod.packages.conda.solving import CUDA_VARIABLE  # reads the image, and needs an optional library

    work = layer / ".hpcmod" / "conda"
    work.mkdir()
    return install_conda(
        plan, layer / plan.target.venv_path, work, builder.now, cuda=builder.environ.get(CUDA_VARIABLE, "")
    )


def _run_pip(plan: StatePlan, layer: Path, builder: Builder, *more: str) -> tuple[Locked, ...]:
    work = layer / ".hpcmod"
    for name, lines in (("requirements", plan.requirements_file), ("constraints", plan.constraints_file)):
        (work / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    argv, log = [*_container(plan, layer, builder), *plan.argv, *more], work / "pip.log"
    with follow(argv, env=container_environment(builder.environ), cwd=layer, tied=True) as program:
        _tell_progress(program.lines(log), builder.tell)
    if program.status:
        said = read_file(log, _LOG_LIMIT).decode(errors="replace")
        raise explain_failure(plan, said, temporary=str(builder.temporary), unread=find_unread())
    report = work / "report.json"
    return parse_pip_report(read_file(report, _REPORT_LIMIT), plan.parent, builder.now)


def _tell_progress(lines: Iterable[str], tell: Callable[[str], None]) -> None:
    """Tell from time to time what pip does, from the lines that it prints."""
    told, collected = time.monotonic(), 0
    for line in map(str.strip, lines):
        collected += line.startswith("Collecting ")
        if time.monotonic() - told >= _SILENCE and line.startswith(_DOING):
            told = time.monotonic()
            tell(f"pip, {collected} packages so far: {without_logins(line)[:_LONGEST_TOLD]}")


def _container(plan: StatePlan, layer: Path, builder: Builder) -> list[str]:
    binds = [Bind(str(layer), USER_LAYER_IN_CONTAINER)]
    for path in dict.fromkeys((*plan.places, *find_settings(builder.environ))):
        copy = _copy_source(path, layer)
        binds.append(Bind(copy, path, "ro" if copy == path else "rw"))
    if not plan.target.find("pip"):
        (layer / ".hpcmod" / "pip").mkdir(exist_ok=True)  # for each container
        binds.append(Bind(_own_pip(), OWN_PIP, "ro"))
    words = [word for bind in binds for word in ("--bind", str(bind))]
    # Python imports from the working directory first, which is the host's unless it is one of the image.
    return [builder.runtime, "exec", "--pwd", "/", *words, plan.target.sif]


def _copy_source(path: str, layer: Path) -> str:
    """Return a copy of a package's source, into which its build may write; other paths are returned as they are."""
    if not any(Path(path, name).exists() for name in _PROJECT):
        return path
    copy = layer / ".hpcmod" / "source" / path.strip("/")
    if not copy.exists():
        shutil.copytree(path, copy, symlinks=True)
    return str(copy)


def _own_pip() -> str:
    """Return the directory of the pip that runs hpcmod's Python."""
    spec = importlib.util.find_spec("pip")
    if spec is None or not spec.submodule_search_locations:
        raise LackingError("neither the image nor hpcmod's Python has pip", "Install pip for hpcmod's Python.")
    return str(spec.submodule_search_locations[0])


def _compile(plan: StatePlan, layer: Path, packages: Path, builder: Builder) -> None:
    """Compile all modules; those with errors, such as templates, are left as they are.

    The image's Python does that without `site`, which would run the code in .pth files of the packages.
    """
    python = [plan.target.python.executable, "-S"]
    inside = f"{USER_LAYER_IN_CONTAINER}/{packages.relative_to(layer)}"
    run_compileall([*_container(plan, layer, builder), *python], ["-f", inside], builder)


def run_compileall(python: Sequence[str], options: Sequence[str], builder: Builder) -> Completed:
    """Compile modules with a Python in a container, for files that nobody changes; the caller checks the result.

    Raises NoSpaceError if the disk is full: without some of the compiled modules, equal packages would not give equal
    files.
    """
    argv = [*python, "-I", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", *options]
    done = run(argv, env=container_environment(builder.environ), stdin="", tied=True)
    full = explain_full(f"{done.stdout}\n{done.stderr}", str(builder.temporary)) if done.status != 0 else None
    if full:
        raise full
    return done


def _make_state(plan: StatePlan, locked: tuple[Locked, ...], builder: Builder) -> State:
    target, parent = plan.target, plan.parent
    return State(
        number=plan.number,
        tag=target.place.tag,
        requirements=tuple(map(without_logins, plan.requirements)),
        locked=locked,
        origin=StateOrigin(
            module=target.module,
            image=target.sha256,
            python=target.python.version,
            time=builder.now,
            user=builder.user,
            action=without_logins(plan.action),
            reference=target.reference,
            options=tuple(map(without_credentials, plan.pip.words)),
        ),
        parent=parent.number if parent and parent.tag == target.place.tag else None,
        allowed=plan.allowed,
        from_image=find_in_image(plan.requirements, locked, target),
        conda=plan.conda,
    )


def _pack(layer: Path, plan: StatePlan, own_set: PackageSet) -> tuple[int, str]:
    """Write the squashfs of a state into the set and return its size and sha256.

    Its name appears when it is complete and on disk.
    """
    top = layer / ".hpcmod" / "packed"
    top.mkdir()
    for path in layer.iterdir():
        if path != top.parent:
            path.rename(top / path.name)
    with contextlib.ExitStack() as opened:
        descriptor, name = opened.enter_context(own_set.tree.parent(plan.file))
        partial = opened.enter_context(replacing(Path(f"/proc/self/fd/{descriptor}", name)))
        with partial.open("x+b") as file:
            packed = pack_directory(top, file, compression="gzip", mtime=SOURCE_TIME)  # which every runtime reads
            os.fchmod(file.fileno(), _PACKED_MODE)
            file.flush()
            os.fsync(file.fileno())
        sha256 = file_sha256(partial)
    return packed.size, sha256
