"""What becomes of the options of a container runtime in a batch script: bind paths and variables of an easyconfig."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hpcmod.check.jobs.reading.calls import RUNTIMES
from hpcmod.check.jobs.reading.options import Option
from hpcmod.errors import BadInputError
from hpcmod.importing.carried import Findings, shown_text
from hpcmod.importing.mounts import SQUASHFS, make_bind
from hpcmod.importing.scripts.starts import ContainerStart
from hpcmod.model.bind import parse_elements
from hpcmod.model.spec import why_no_variable

IMAGE_OPTIONS = ("image", "container-image")
BIND_OPTIONS = ("bind", "volume", "mount", "container-mounts")
VARIABLE_OPTIONS = ("env", "container-env")

SAME = frozenset(
    (
        *("rm", "interactive", "tty", "quiet", "silent", "debug", "verbose", "nocolor", "init", "sig-proxy", "help"),
        *("no-container-entrypoint", "container-readonly", "read-only", "no-healthcheck", "no-https", "name"),
        *("container-mount-home", "glibc", "centralized-repository", "disable-cache", "pull"),
    )
)
"""Options that change nothing for a program in a module's container."""

_GPUS = "the site profile passes the GPUs that the scheduler gives"
_NETWORK = "the site profile decides which of the host's network libraries replace the image's"
_NODE = "the container uses the node's, as every program does"
CHANGED: Mapping[str, str] = {
    **dict.fromkeys(("nv", "nvccli", "rocm", "gpu", "gpus"), _GPUS),
    **dict.fromkeys(("mpi", "cuda-mpi", "nccl", "openmpi-pmi2", "openmpi-pmix", "module", "ldconfig"), _NETWORK),
    **dict.fromkeys(("ipc", "pid", "network", "net", "uts", "shm-size", "userns", "ulimit", "publish"), _NODE),
    "user": "programs run as you",
    "container-remap-root": "programs run as you",
    "no-container-remap-root": "programs run as you",
    "privileged": "programs run as you, without further rights",
    "fakeroot": "programs run as you",
    "root": "programs run as you",
    "no-container-mount-home": "your home directory is visible",
    "no-home": "your home directory is visible",
    "device": "the container has all of the host's /dev, and the GPUs that the scheduler gives",
}
"""Options with another effect than before, and which."""

INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        ("writable", "writable-tmpfs", "rw", "container-writable"),
        "write to bound directories; after loading the module: singularity exec --writable-tmpfs $SIF COMMAND",
    ),
    **dict.fromkeys(("cleanenv", "clearenv"), "after loading the module: singularity exec --cleanenv $SIF COMMAND"),
    **dict.fromkeys(("contain", "containall"), "after loading the module: singularity exec --contain $SIF COMMAND"),
    **dict.fromkeys(
        ("workdir", "container-workdir", "pwd", "cwd"), "start the job in that directory: hpcmod job --chdir DIRECTORY"
    ),
    **dict.fromkeys(
        ("entrypoint", "container-entrypoint"), "after loading the module: singularity run $SIF COMMAND starts it"
    ),
    "env-file": "write its variables as --env NAME=VALUE of hpcmod job; such files often have secrets",
    "overlay": "put the files into the image, or add packages to the module: hpcmod add",
    "home": "your home directory is the one of the machine",
    "scratch": "write to a directory of the node, such as $TMPDIR",
    "container-save": "put your packages into an image: hpcmod bake",
    "container-name": "each job starts from the same image; add packages with hpcmod add",
    "detach": "the job waits for the program",
    "memory": "request memory from the scheduler: hpcmod job --sbatch=--mem=SIZE",
    "cpus": "request cores from the scheduler: hpcmod job --cpus N",
}
"""Options without a counterpart, and what to do instead."""

NOTHING = "hpcmod has nothing that corresponds to it"
_NO_MODULE = ("none",)


@dataclass
class ContainerSettings:
    """Settings of an easyconfig from the options of a container runtime."""

    binds: dict[str, str] = field(default_factory=dict)
    """Bind paths by their places in the container; a later one hides an earlier one."""
    variables: dict[str, str] = field(default_factory=dict)
    netstack: str = ""


def read_options_of_container(start: ContainerStart, settings: ContainerSettings, said: Findings) -> None:
    """Add the options of a container to the settings; report all others."""
    for option in start.options:
        name = option.name
        if name in IMAGE_OPTIONS or name in SAME:
            continue
        if name in BIND_OPTIONS:
            add_binds(start.runtime, option.value, settings, said)
        elif name in VARIABLE_OPTIONS:
            _add_variables(start.runtime, option, settings, said)
        elif name == "module" and option.value in _NO_MODULE:
            settings.netstack = "off"
        elif name in CHANGED:
            said.changed.append(f"{_shown(start, option)}: {CHANGED[name]}")
        else:
            said.left_out.append(f"{_shown(start, option)}: {INSTEAD.get(name, NOTHING)}")


def add_binds(runtime: str, value: str, settings: ContainerSettings, said: Findings) -> None:
    """Add the binds in the value of one option, in the syntax of its runtime."""
    for given, source, destination, flags in _read_binds(runtime, value):
        try:
            if not source.startswith("/") and re.fullmatch("[A-Za-z0-9][A-Za-z0-9_.-]*", source):
                raise BadInputError(f"{source} is a volume of {runtime}: bind a directory", "")
            bind, lost = make_bind(source, destination, flags)
        except BadInputError as err:
            said.left_out.append(f"the bind {shown_text(given)}: {shown_text(err.message)}{_bind_by_hand(given)}")
            continue
        settings.binds.pop(destination, None)
        settings.binds[destination] = bind
        if lost:
            said.left_out.append(f"{', '.join(lost)} of the bind {shown_text(given)}: the runtime decides")


def add_variable(name: str, value: str, settings: ContainerSettings, said: Findings) -> None:
    """Add a variable of the container, or report why an easyconfig cannot have it."""
    reason = why_no_variable(name, value)
    if reason:
        said.left_out.append(f"the variable {shown_text(name)}: {shown_text(reason)}")
    else:
        settings.variables[name] = value


def _read_binds(runtime: str, value: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield each bind of a value: as given, source, destination, and flags."""
    if runtime in RUNTIMES:
        for bind in parse_elements(value):
            flags = ["sqsh" if one == SQUASHFS else one for one in bind.options.split(",") if one]
            yield str(bind), bind.source, bind.place, flags
        return
    if value.startswith("type="):
        yield (value, *_read_mount(value))
        return
    separator = {"shifter": ";", "pyxis": ","}.get(runtime)
    for given in value.split(separator) if separator else [value]:
        source, _, rest = given.partition(":")
        destination, _, listed = rest.partition(":")
        yield given, source, destination or source, re.split("[+,]", listed) if listed else []


def _read_mount(value: str) -> tuple[str, str, list[str]]:
    """Return source, destination and flags of `type=bind,source=...,target=...,readonly`."""
    pairs = dict(part.partition("=")[::2] for part in value.split(","))
    source = pairs.pop("source", pairs.pop("src", ""))
    destination = next((pairs.pop(name) for name in ("target", "destination", "dst") if name in pairs), "")
    if pairs.pop("type") != "bind":
        source = ""
    read_only = any(pairs.pop(name, "false") in ("", "true") for name in ("readonly", "ro"))
    return source, destination or source, [*(["ro"] if read_only else []), *pairs]


def _bind_by_hand(given: str) -> str:
    """Return how to bind what depends on the user; empty if that does not depend on a variable."""
    return "; add it to hpcmod job: --bind" if "$" in given else ""


def _add_variables(runtime: str, option: Option, settings: ContainerSettings, said: Findings) -> None:
    """Add the variables of one option: NAME=VALUE, several in a list for some runtimes, or names alone."""
    if option.name == "container-env":
        said.changed.append(f"the variables {shown_text(option.value)}: yours are passed, unless the module sets them")
        return
    listed = re.split(r",(?=[A-Za-z_][A-Za-z0-9_]*=)", option.value) if runtime in RUNTIMES else [option.value]
    for pair in listed:
        name, equals, value = pair.partition("=")
        if equals:
            add_variable(name, value, settings, said)
        else:
            said.changed.append(f"the variable {shown_text(name)}: yours is passed, unless the module sets it")


def _shown(start: ContainerStart, option: Option) -> str:
    value = f"={option.value}" if option.value else ""
    dashes = "-" if len(option.name) == 1 else "--"
    return f"the option {shown_text(f'{dashes}{option.name}{value}')} of {start.runtime}"
