"""Install conda packages into a directory, as an environment of conda that is then added to an image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.core.errors import BadInputError, CheckFailedError
from hpcmod.core.fs.tree import write_file
from hpcmod.machine.values.bind import Bind
from hpcmod.modules import read_packages_in
from hpcmod.modules.values.place import SOURCE_TIME, USER_LAYER_IN_CONTAINER
from hpcmod.packages.bake.environment import Environment
from hpcmod.packages.bake.image import BaseImage
from hpcmod.packages.builder import Builder
from hpcmod.packages.building import run_compileall, scratch_layer
from hpcmod.packages.conda.image import CondaImage, read_conda_image
from hpcmod.packages.conda.linking import Prefix, link_conda
from hpcmod.packages.conda.solving import CUDA_VARIABLE, check_no_python, fetch_conda, solve_conda
from hpcmod.packages.values.conda import CONDA_IN_CONTAINER, NO_CONDA, CondaPackage, CondaPart, merge_conda, with_times
from hpcmod.packages.values.requirement import normalize_package

_DIRECTORY = "prefix"
_COMPILED = (0, 1)
"""Exit statuses of compileall: 1 if a file has errors, such as a template."""
_NO_PYTHON = "Use pip, -r FILE; or name python among the conda packages to have a second one, which comes first."


@dataclass(frozen=True)
class _Choice:
    """The packages that are installed, and where."""

    packages: tuple[CondaPackage, ...]
    prefix: str
    python: str
    """Version of the Python in the prefix; empty if there is none."""
    is_new: bool
    """Whether the image has no environment of conda yet."""


def choose_packages(base: BaseImage, part: CondaPart, builder: Builder) -> tuple[CondaPackage, ...]:
    """Return the conda packages that would be added; nothing is downloaded but the channels' indexes.

    Raises HpcmodError if they do not fit, or a channel cannot be read.
    """
    with scratch_layer(builder.temporary) as layer:
        return _choose(base, merge_conda(NO_CONDA, part), layer / ".hpcmod", builder).packages


@contextmanager
def linked_environment(
    base: BaseImage,
    part: CondaPart,
    builder: Builder,
    *,
    may_be_empty: bool = False,
) -> Iterator[tuple[Environment, CondaPart]]:
    """Yield the environment and its packages; the files are in a temporary directory of this node during the block.

    `may_be_empty`: Whether the base may have all of the packages.

    Raises BadInputError if the packages do not fit, or the base has all of them; VerificationError if one does not have
    the checksum of the channel or the lock file, or leads out of the prefix; HpcmodError if a channel cannot be read,
    or there is no space.
    """
    part = merge_conda(NO_CONDA, part)
    with scratch_layer(builder.temporary) as layer:
        work, directory = layer / ".hpcmod", layer / _DIRECTORY
        directory.mkdir()
        chosen = _choose(base, part, work, builder)
        if not (chosen.packages or may_be_empty):
            raise BadInputError(f"{base.shown} has all of these packages: {', '.join(part.requirements)}", "")
        archives = fetch_conda(chosen.packages, work / "archives")
        ordered = tuple(sorted(archives, key=lambda archive: archive.package.name))  # as in a lock file
        prefix = Prefix(directory, chosen.prefix, chosen.python, is_venv=False)
        packages = link_conda(ordered, prefix, work)
        _check_not_replaced(base, prefix, is_new=chosen.is_new)
        if chosen.is_new and packages:
            write_file(directory / "conda-meta" / "history", "")  # without it, conda does not see an environment
            os.utime(directory / "conda-meta" / "history", (SOURCE_TIME, SOURCE_TIME))
        if chosen.python:
            _compile(base, layer, prefix, builder)
        _set_times(directory)
        environment = Environment(
            directory,
            chosen.prefix,
            tuple(f"{package.name}-{package.version}-{package.build}" for package in packages),
            python=chosen.python,
            on_path=chosen.prefix == CONDA_IN_CONTAINER,
        )
        yield environment, replace(part, packages=with_times(packages, NO_CONDA, builder.now), exact=False)


def _choose(base: BaseImage, part: CondaPart, scratch: Path, builder: Builder) -> _Choice:
    image, own = read_conda_image(base.sif, base.facts.python), base.facts.python
    cuda = builder.environ.get(CUDA_VARIABLE, "")
    solved = solve_conda(part, image, scratch, module=base.shown, cure="another image.", cuda=cuda)
    _check_same(base, image, solved)
    chosen = tuple(package for package in solved if package.name not in image.names)
    if own and "python" not in part.names:
        check_no_python(chosen, part, module=base.shown, cure=_NO_PYTHON)
    if own and image.is_conda:
        return _Choice(chosen, own.prefix, own.version, is_new=not image.records)
    version = next((package.version for package in chosen if package.name == "python"), "")
    return _Choice(chosen, CONDA_IN_CONTAINER, ".".join(version.split(".")[:2]), is_new=not image.records)


def _check_same(base: BaseImage, image: CondaImage, packages: tuple[CondaPackage, ...]) -> None:
    """Check that the base has the builds of a lock file, where it has these packages."""
    builds = {str(record["name"]): f"{record['version']} {record['build']}" for record in image.records}
    for package in packages:
        inside = builds.get(package.name)
        if inside not in (None, f"{package.version} {package.build}"):
            raise BadInputError(
                f"{package.name} {package.version} {package.build} does not fit {base.shown}, which has {inside}",
                "Use the image that the lock file is for, or resolve the packages again: --conda FILE.",
            )


def _check_not_replaced(base: BaseImage, prefix: Prefix, *, is_new: bool) -> None:
    """Check that no Python package is replaced that pip installed in the environment of the base."""
    if is_new or not prefix.python:
        return
    inside = {normalize_package(package.name): package.version for package in base.facts.packages}
    names = [package.name for package in read_packages_in(prefix.directory / prefix.site_packages)]
    bad = [(name, inside[normalize_package(name)]) for name in names if normalize_package(name) in inside]
    if bad:
        listed = ", ".join(f"{name} (the image has {version})" for name, version in bad)
        raise BadInputError(
            f"conda would replace packages that pip installed in {base.shown}: {listed}",
            "Leave them to pip: in the environment file's `pip:`, or with -r FILE.",
        )


def _compile(base: BaseImage, layer: Path, prefix: Prefix, builder: Builder) -> None:
    """Compile all modules, which nobody can do later in a read-only image."""
    library = f"lib/python{prefix.python}"
    if not (prefix.directory / library).is_dir():
        return
    here = f"{USER_LAYER_IN_CONTAINER}/{_DIRECTORY}"
    own = prefix.directory / "bin" / f"python{prefix.python}"
    python = f"{here}/bin/python{prefix.python}" if own.exists() else f"{prefix.inside}/bin/python{prefix.python}"
    container = [builder.runtime, "exec", "--bind", str(Bind(str(layer), USER_LAYER_IN_CONTAINER)), base.sif]
    options = ["-s", here, "-p", prefix.inside, f"{here}/{library}"]
    done = run_compileall([*container, python], options, builder)
    if done.status not in _COMPILED:
        raise CheckFailedError(
            f"Python {prefix.python} of conda does not start in {base.shown}: {done.stderr.strip()[-500:]}",
            "Choose another image, with a newer glibc.",
        )


def _set_times(directory: Path) -> None:
    """Give what was made here the same time, so that equal packages give equal images.

    Files of packages keep their time, which their compiled modules name.
    """
    for parent, directories, files in os.walk(directory):  # the directories may be links
        for name in (*directories, *files):
            path = Path(parent, name)
            if path.is_symlink() or path.is_dir() or Path(parent).name == "__pycache__":
                os.utime(path, (SOURCE_TIME, SOURCE_TIME), follow_symlinks=False)
    os.utime(directory, (SOURCE_TIME, SOURCE_TIME))
