"""Files of singularity-compose: an easyconfig for the one instance of a file, or for the one that is chosen.

What each key becomes: docs/reference/import-keys.md. Source, read 2026-11:
https://github.com/singularityhub/singularity-compose/blob/main/docs/spec/spec-2.0.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.importing.carried import Findings, shown_text
from hpcmod.importing.compose import choose_named_table, merge_tables, texts_of, volume_binds, word_of
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
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

_READ = ("name", "image", "volumes", "start")
_CHANGED = {
    "ports": "programs use the host's network, so their own ports are reachable without a mapping",
    "network": "programs use the host's network",
}
_INSTEAD = {
    "run": "singularity run $SIF",
    "exec": "singularity exec $SIF COMMAND",
    "post": "run these commands of the host in the job script",
    "depends_on": "start the other instance in the job script first",
    "volumes_from": "name these volumes at this instance too",
}
_GPUS = ("nv", "nvccli", "rocm")


def import_singularity_compose(paths: Iterable[Path], *, instance: str | None) -> tuple[Outcome, ...]:
    """Convert files of singularity-compose, and all below directories; `instance` chooses one of several."""
    suffixes = ("singularity-compose.yml", "singularity-compose.yaml")
    return settle_names(convert_files(paths, suffixes, lambda text, path: [convert_instance(text, path, instance)]))


def convert_instance(text: str, path: Path, wanted: str | None = None) -> ImportedEasyconfig:
    """Convert one instance.

    Raises
    ------
    BadInputError
        If the file is not valid, has several instances and none is chosen, or its image is not in a registry.
    LackingError
        If PyYAML is not installed.
    """
    tree = load_yaml(text, str(path))
    key, instance = choose_named_table(tree, "instance", wanted)
    name = word_of(instance.get("name", key))
    said = Findings()
    reference = _find_image(instance)
    easyconfig, left_out = describe_registry_image(
        name,
        choose_version(reference),
        reference,
        description=f"Instance {name}: {reference.repository.rpartition('/')[2]} from {reference.registry}",
        url="",
        commands=None,
    )
    easyconfig = replace(easyconfig, bind_paths=volume_binds(instance.get("volumes"), path, Variables(), said))
    _report_start(instance.get("start"), said)
    for other in (one for one in instance if one not in _READ):
        if other in _CHANGED:
            said.changed.append(f"{other}: {_CHANGED[other]}")
        else:
            said.left_out.append(f"the key {shown_text(other)}: {_INSTEAD.get(other, 'hpcmod has nothing like it')}")
    if not reference.pinned:
        said.notes.append(UNPINNED)
    return ImportedEasyconfig(
        str(path), easyconfig, (*said.left_out, *left_out), tuple(said.notes), changed=tuple(said.changed)
    )


def _find_image(instance: Mapping[str, Any]) -> ImageReference:
    given = instance.get("image")
    if "build" in instance:
        raise BadInputError("its instance is built: apptainer build NAME_VERSION.sif FILE; hpcmod import sif", "")
    if not isinstance(given, str) or not given.startswith("docker://"):
        shown = f" {shown_text(given)!r}" if isinstance(given, str) else ""
        raise BadInputError(f"its image{shown} is not docker://...: get the SIF, then hpcmod import sif", "")
    return ImageReference.parse(f"docker://{with_registry(given.removeprefix('docker://'))}")


def _report_start(given: object, said: Findings) -> None:
    """Report the options of the instance; a module starts a container for each command, and no instance."""
    start = merge_tables(given) if isinstance(given, dict) else {}
    said.left_out.append("the instance that keeps running: singularity instance start $SIF NAME")
    for option in texts_of(start.get("options"), "start.options", said):
        if option in _GPUS:
            said.changed.append(f"start.options {option}: the site profile passes GPUs")
        else:
            said.left_out.append(f"start.options {shown_text(option)}: singularity exec --{shown_text(option)} $SIF")
    for key in (one for one in start if one != "options"):
        said.left_out.append(f"start.{shown_text(key)} {word_of(start[key])}: arguments of singularity instance start")


def _convert(paths: Iterable[Path], _: Watch, *, instance: str | None = None) -> tuple[Outcome, ...]:
    return import_singularity_compose(paths, instance=instance)


FORMAT = ImportFormat(
    "Convert files of singularity-compose (singularity-compose.yml) with one instance.",
    _convert,
    examples=("singularity-compose.yml --dry-run", "singularity-compose.yml --instance db --output ours"),
    options=(ImportOption("instance", "Instance to convert (default: the only one).", metavar="NAME"),),
)
