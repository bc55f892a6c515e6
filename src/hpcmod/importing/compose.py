"""Compose files of Docker and Podman: an easyconfig for the one service of a file, or for the one that is chosen.

What each key becomes: docs/reference/import-keys.md. Sources, read 2026-11:
https://docs.docker.com/reference/compose-file/services/, https://docs.docker.com/reference/compose-file/deploy/ and
https://docs.docker.com/reference/compose-file/interpolation/.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcmod.check.easyconfigs.files import read_recipe
from hpcmod.errors import BadInputError
from hpcmod.importing.carried import Findings, carry_environment, report_binds_by_hand, shown_text
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
from hpcmod.importing.mounts import make_bind, shell_text
from hpcmod.importing.outcome import (
    UNPINNED,
    ImportedEasyconfig,
    Outcome,
    choose_version,
    convert_files,
    describe_registry_image,
    settle_names,
    with_registry,
)
from hpcmod.importing.variables import Variables
from hpcmod.model.documents import load_yaml
from hpcmod.model.images.reference import ImageReference

SUFFIXES = ("compose.yaml", "compose.yml")

_DEEPEST = 3  # levels of `<<`
_MOST_TABLES = 5  # in one `<<`: aliases let a small file name very many
_GPUS = "the site profile passes GPUs; request them from the scheduler: srun --gpus=N"
_CHANGED = {
    "gpus": _GPUS,
    "ports": "programs use the host's network, so their own ports are reachable without a mapping",
    "shm_size": "the container has the host's /dev/shm",
    "user": "programs in the container run as you",
    "group_add": "programs in the container run with your groups",
    "platform": "the image for the architecture of the machine is installed",
    "pull_policy": "hpcmod update installs a newer image",
}
_INSTEAD = {
    "env_file": "singularity exec --env-file FILE $SIF",
    "tmpfs": "singularity exec --scratch DIRECTORY $SIF",
    "cpus": "srun --cpus-per-task=N",
    "cpuset": "srun --cpu-bind=map_cpu:LIST",
    "mem_limit": "srun --mem=SIZE",
    "ulimits": "ulimit in the job script",
    "secrets": "bind the file: singularity exec --bind FILE:/run/secrets/NAME $SIF",
    "configs": "bind the file: singularity exec --bind FILE:/NAME $SIF",
    "depends_on": "start the other service in the job script first",
    "healthcheck": "hpcmod verify tests the module",
    "restart": "sbatch --requeue",
}
_HOST = ("network_mode", "ipc", "pid", "userns_mode", "cgroup", "uts")
"""Namespaces: the runtime uses the host's by default."""
_READ = ("image", "environment", "volumes", "command", "entrypoint", "working_dir", "devices", "deploy", "read_only")
_SAME = ("tty", "stdin_open", "attach", "build", "init")
"""Keys that change nothing for a program which a user starts from an existing image."""


def import_compose(
    paths: Iterable[Path], *, environ: Mapping[str, str], service: str | None, expand: bool
) -> tuple[Outcome, ...]:
    """Convert Compose files, and all below directories.

    Parameters
    ----------
    service
        The service to convert; None: the only one.
    expand
        Replace variables by their values in the environment and in the file .env beside the Compose file; if not, what
        depends on them is left out. These values are often secrets.
    """

    def convert(text: str, path: Path) -> list[Outcome]:
        variables = Variables({**_read_dotenv(path), **environ}) if expand else Variables(complete=False)
        return [convert_service(text, path, variables, service)]

    return settle_names(convert_files(paths, SUFFIXES, convert))


def _read_dotenv(path: Path) -> dict[str, str]:
    """Return the variables of the file .env beside a Compose file; values that refer to others are left out."""
    file = path.parent / ".env"
    found = {}
    for line in read_recipe(file).splitlines() if file.is_file() else ():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        quoted = re.fullmatch(r"""'([^']*)'|"([^"$\\]*)"|([^$'"#\\]*?)(?:\s+#.*)?""", value.strip())
        if equals and quoted and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            found[name] = quoted[1] or quoted[2] or quoted[3] or ""
    return found


def convert_service(text: str, path: Path, variables: Variables, wanted: str | None = None) -> ImportedEasyconfig:
    """Convert one service.

    Raises
    ------
    BadInputError
        If the file is not valid, has several services and none is chosen, or its image is not in a registry.
    LackingError
        If PyYAML is not installed.
    """
    tree = load_yaml(text, str(path))
    if isinstance(tree, dict) and "instances" in tree:
        raise BadInputError("it has instances and no services: hpcmod import singularity-compose", "")
    name, service = choose_named_table(tree, "service", wanted)
    if "extends" in service:
        raise BadInputError(f"its service {name} extends another: import the output of `docker compose config`", "")
    said = Findings()
    reference = _find_image(service, variables)
    pairs = list(_environment(service.get("environment"), said))
    easyconfig, left_out = describe_registry_image(
        name,
        choose_version(reference),
        reference,
        description=f"Service {name}: {reference.repository.rpartition('/')[2]} from {reference.registry}",
        url="",
        commands=None,
        environment=carry_environment(pairs, variables, said, empty=""),
    )
    easyconfig = replace(easyconfig, bind_paths=volume_binds(service.get("volumes"), path, variables, said))
    _report_start(service, said)
    _report_devices(service, said)
    _report_deploy(service.get("deploy"), said)
    _report_others(tree, service, said)
    if not reference.pinned:
        said.notes.append(UNPINNED)
    return ImportedEasyconfig(
        str(path), easyconfig, (*said.left_out, *left_out), tuple(said.notes), changed=tuple(said.changed)
    )


def choose_named_table(tree: object, what: str, wanted: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name and the keys of the service or instance to convert.

    Raises
    ------
    BadInputError
        If there is none, or there are several and none is wanted.
    """
    table = tree.get(f"{what}s") if isinstance(tree, dict) else None
    if not isinstance(table, dict) or not table:
        raise BadInputError(f"it has no {what}s", "")
    names = [str(name) for name in table]
    if wanted is not None and wanted not in table:
        raise BadInputError(f"it has no {what} {wanted!r}, only {', '.join(names)}", "")
    if wanted is None and len(names) > 1:
        raise BadInputError(f"it has several {what}s: {', '.join(names)}; choose one with --{what} NAME", "")
    name = wanted or names[0]
    return name, merge_tables(table[name])


def merge_tables(value: object, depth: int = 0) -> dict[str, Any]:
    """Return a table with the tables of its key `<<`, which this reader of YAML takes for an ordinary key."""
    if not isinstance(value, dict):
        raise BadInputError("a service or its environment is not a table", "")
    if depth > _DEEPEST:
        raise BadInputError("its keys `<<` are nested too deeply", "")
    below = value.get("<<", [])
    tables = below if isinstance(below, list) else [below]
    if len(tables) > _MOST_TABLES:
        raise BadInputError(f"a key `<<` has more than {_MOST_TABLES} tables", "")
    merged: dict[str, Any] = {}
    for one in reversed(tables):
        merged.update(merge_tables(one, depth + 1))
    merged.update({str(key): item for key, item in value.items() if key != "<<"})
    return merged


def _find_image(service: Mapping[str, Any], variables: Variables) -> ImageReference:
    given = service.get("image")
    if not isinstance(given, str) or not given:
        how = "build it, push it to a registry and name it as image" if "build" in service else "add one"
        raise BadInputError(f"its service names no image: {how}", "")
    try:
        text = variables.substitute(given)
    except BadInputError as err:
        raise BadInputError(f"its image {shown_text(given)!r}: {err.message}; try --expand", "") from err
    return ImageReference.parse(f"docker://{with_registry(text.removeprefix('docker://'))}")


def _environment(given: object, said: Findings) -> Iterator[tuple[str, str]]:
    """Yield the variables of either form, a table or a list of NAME=VALUE."""
    pairs = merge_tables(given).items() if isinstance(given, dict) else []
    for name, value in pairs:
        if isinstance(value, str):
            yield name, value
        else:
            said.left_out.append(f"the variable {shown_text(name)}: its value is not text")
    for one in texts_of(given if isinstance(given, list) else [], "environment", said):
        name, equals, value = one.partition("=")
        if equals:
            yield name, value
        else:
            said.changed.append(f"the variable {shown_text(name)}: yours is passed, unless the image sets it")


def texts_of(given: object, key: str, said: Findings) -> list[str]:
    """Return the strings of a list, or a single one; report anything else."""
    items = given if isinstance(given, list) else [] if given is None else [given]
    if any(not isinstance(one, str) for one in items):
        said.left_out.append(f"entries of {key} that are not text")
    return [one for one in items if isinstance(one, str)]


def volume_binds(given: object, path: Path, variables: Variables, said: Findings) -> tuple[str, ...]:
    """Return the binds of volumes; relative sources are relative to the Compose file."""
    chosen: dict[str, str] = {}
    by_hand: list[str] = []
    for volume in given if isinstance(given, list) else ():
        shown = shown_text(volume) if isinstance(volume, str) else _named(volume)
        try:
            source, destination, flags = _volume(volume, variables)
            if source.startswith("."):
                source = posixpath.normpath(posixpath.join(str(path.absolute().parent), source))
                said.changed.append(f"the volume {shown}: it is {source} from wherever you start")
            elif not source.startswith(("/", "~")):
                raise BadInputError("named volumes do not exist here: bind a directory instead", "")
            bind, lost = make_bind(source, destination, flags)
        except BadInputError as err:
            said.left_out.append(f"the volume {shown}: {shown_text(err.message)}")
            if isinstance(volume, str) and re.match(r"(?:\$\{|~/).*:", volume):
                by_hand.append(volume)
            continue
        chosen.pop(destination, None)
        chosen[destination] = bind
        if lost:
            said.left_out.append(f"{', '.join(lost)} of the volume {shown}: the runtime decides")
    if given is not None and not isinstance(given, list):
        said.left_out.append("volumes, which is not a list")
    report_binds_by_hand(by_hand, said)
    return tuple(chosen.values())


def _volume(volume: object, variables: Variables) -> tuple[str, str, list[str]]:
    """Return source, destination and flags of a volume in the short or the long form."""
    if isinstance(volume, str):
        parts = variables.substitute(volume).split(":")
        if len(parts) == 1:
            raise BadInputError("it has no source: singularity exec --scratch DIRECTORY $SIF", "")
        if len(parts) > 3:
            raise BadInputError("it is not SOURCE:DESTINATION[:FLAGS]", "")
        return parts[0], parts[1], parts[2].split(",") if len(parts) > 2 else []
    table = merge_tables(volume)
    if table.get("type") != "bind":
        raise BadInputError(f"a volume of type {word_of(table.get('type'))} does not exist here: bind a directory", "")
    source, target = (table.get(key) for key in ("source", "target"))
    if not isinstance(source, str) or not isinstance(target, str):
        raise BadInputError("it has no source or target", "")
    options = [key for key in table if key not in ("type", "source", "target", "read_only")]
    flags = ["ro"] if table.get("read_only") == "true" else []
    return variables.substitute(source), variables.substitute(target), [*flags, *options]


def _named(volume: object) -> str:
    target = volume.get("target") if isinstance(volume, dict) else None
    return f"at {word_of(target)}"


def word_of(value: object) -> str:
    """Return text for a message, or the type of any other value: nested lists may be very large when printed."""
    return shown_text(value) if isinstance(value, str) else f"({type(value).__name__})"


def _report_start(service: Mapping[str, Any], said: Findings) -> None:
    """Report what the service runs, and where."""
    entrypoint, command = (_command(service.get(key), key, said) for key in ("entrypoint", "command"))
    if entrypoint:
        said.left_out.append(f"entrypoint and command: singularity exec $SIF {entrypoint} {command}".rstrip())
    elif command:
        said.left_out.append(f"command, and the image's entry point: singularity run $SIF {command}")
    else:
        said.left_out.append("the image's entry point and command: singularity run $SIF")
    directory = service.get("working_dir")
    if directory is not None:
        shown = word_of(directory)
        said.left_out.append(f"working_dir {shown}: singularity exec --pwd {shell_text(shown)} $SIF")
    if service.get("read_only") != "true":
        said.left_out.append("a writable container, the default: singularity exec --writable-tmpfs $SIF")


def _command(given: object, key: str, said: Findings) -> str:
    """Return a command for a shell, from a list or from a line that Compose splits without a shell."""
    try:
        words = shlex.split(given) if isinstance(given, str) else texts_of(given, key, said)
    except ValueError:
        words = [str(given)]
    return shown_text(" ".join(shell_text(word) if "$" in word else shlex.quote(word) for word in words))


def _report_devices(service: Mapping[str, Any], said: Findings) -> None:
    for device in texts_of(service.get("devices"), "devices", said):
        source, _, rest = device.partition(":")
        if device.endswith("/gpu=all"):
            said.changed.append(f"the device {shown_text(device)}: {_GPUS}")
        elif source.startswith("/dev/") and rest.partition(":")[0] in ("", source):
            said.changed.append(f"the device {shown_text(device)}: the container has all of the host's /dev")
        else:
            said.left_out.append(f"the device {shown_text(device)}: singularity exec --bind SOURCE:TARGET $SIF")


def _report_deploy(given: object, said: Findings) -> None:
    """Report the resources of a service: the scheduler assigns them."""
    deploy = merge_tables(given) if isinstance(given, dict) else {}
    resources = deploy.pop("resources", {})
    for kind, table in merge_tables(resources).items() if isinstance(resources, dict) else ():
        for key, value in merge_tables(table).items() if isinstance(table, dict) else ():
            name = f"deploy.resources.{shown_text(kind)}.{shown_text(key)}"
            if key == "devices":
                said.changed.append(f"{name}: {_GPUS}")
            else:
                how = {"cpus": "srun --cpus-per-task=N", "memory": "srun --mem=SIZE"}.get(key, "ask the scheduler")
                said.left_out.append(f"{name} = {word_of(value)}: {how}")
    if deploy:
        said.left_out.append(f"deploy.{', deploy.'.join(map(shown_text, deploy))}: the scheduler decides")


def _report_others(tree: Mapping[Any, Any], service: Mapping[str, Any], said: Findings) -> None:
    """Report all other keys; those that start with x- mean nothing to Compose either."""
    for key, value in service.items():
        if key in (*_READ, *_SAME) or key.startswith("x-") or (key in _HOST and value == "host"):
            continue
        if key in _CHANGED:
            said.changed.append(f"{key}: {_CHANGED[key]}")
        else:
            said.left_out.append(f"the key {shown_text(key)}: {_INSTEAD.get(key, 'hpcmod has nothing like it')}")
    known = ("version", "name", "services", "volumes", "networks", "secrets", "configs")
    for key in map(str, tree):
        if key not in known and not key.startswith("x-"):
            said.left_out.append(f"the key {shown_text(key)} of the file")


def _convert(
    paths: Iterable[Path], _: Watch, *, service: str | None = None, expand: bool = False
) -> tuple[Outcome, ...]:
    return import_compose(paths, environ=os.environ, service=service, expand=expand)


FORMAT = ImportFormat(
    "Convert Compose files (compose.yaml) of Docker and Podman with one service.",
    _convert,
    examples=("compose.yaml --dry-run", "compose.yaml --service train --output ours"),
    options=(
        ImportOption("service", "Service to convert (default: the only one).", metavar="NAME"),
        ImportOption("expand", "Replace ${VARIABLE} by its value in the environment or in .env (default: leave out)."),
    ),
)
