"""Install a container with `eb` in a private directory, copy it to its final place, and keep its module hidden."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcmod.catalogue.publishing.placed import StagedInstallation
from hpcmod.catalogue.records.sharing import check_no_links, check_replaceable, file_mode, removal_group
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.visible.kept import KEPT_EASYCONFIG, KEPT_FILES, KEPT_MODULE, installed_files, render_kept_files
from hpcmod.core.errors import CheckFailedError
from hpcmod.core.fs.ownership import make_private_directory
from hpcmod.core.fs.removal import remove_path
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.tree import write_file
from hpcmod.core.lock import is_held
from hpcmod.core.text.toml import render_toml
from hpcmod.modules import run_eb
from hpcmod.modules.values.install_record import SUFFIXES

_KEPT = "kept"
_STAGED = "HPCMOD_STAGED"
"""Tells the easyblock to leave the image where it is. Its value: the syntaxes of the module that users load now."""

_SAID = 15  # lines of the output of a failed `eb`


@dataclass(frozen=True)
class Stage:
    """The directory in which a container is prepared for publishing.

    It belongs to the publisher alone and is not below the catalogue: what `eb` reads there is code, and others in the
    catalogue's group could replace it. It is in the home directory, so that checks as job steps can read it.
    """

    catalogue: Catalogue
    name: str
    version: str
    """With the suffix."""
    state: Path
    """The user's state directory."""

    @property
    def title(self) -> str:
        """Return the name that distinguishes this container from others being published at the same time."""
        return f"{self.name}@{self.version}"  # no name contains an @

    @property
    def directory(self) -> Path:
        """Return the directory, which is removed on success and on failure."""
        return self.state / "staging" / self.digest / self.title

    @property
    def digest(self) -> str:
        """Return a digest of the catalogue's path."""
        return hashlib.sha256(os.fsencode(os.path.realpath(self.catalogue.directory))).hexdigest()[:16]

    @property
    def modules(self) -> Path:
        """Return the module tree that contains only this module."""
        return self.directory / "modules" / "all"

    @property
    def software(self) -> Path:
        """Return the installation, at its final place."""
        return self.catalogue.software / self.name / self.version

    @property
    def private(self) -> StagedInstallation:
        """Return the installation that `eb` makes, which is copied to its final place."""
        prefix = os.path.realpath(self.directory / "root")
        return StagedInstallation(
            self.software, self.catalogue.tree, self.software, prefix, self.digest, catalogue=self.catalogue
        )

    @property
    def kept(self) -> Path:
        """Return the directory of the files that the catalogue keeps once it is published."""
        return self.catalogue.kept / self.name / self.version

    def clear(self) -> None:
        """Start with an empty directory, and remove leftovers of killed processes for other containers."""
        remove_path(self.directory)
        for other in self.directory.parent.glob("*"):
            if not is_held(self.catalogue.locks / f"{other.name}.lock"):
                with contextlib.suppress(OSError):
                    remove_path(other)
        make_private_directory(self.directory)

    def remove(self) -> None:
        """Remove the directory."""
        with contextlib.suppress(OSError):
            remove_path(self.directory)

    def discard(self) -> None:
        """Remove everything that was put in place, and the directory."""
        self.remove()
        for place in (self.kept, self.software):
            with contextlib.suppress(OSError):  # gc reports what is left
                self.catalogue.tree.remove_all(place, open_to=removal_group(self.catalogue, place))
        for name in (self.kept.parent, self.software.parent):
            self.catalogue.tree.remove_empty(name)  # unless it has other versions


def eb_command(stage: Stage, easyconfig: Path) -> list[str]:
    """Return the command line: whatever the site configures, the module goes to the stage under its plain name."""
    catalogue, place = stage.catalogue, stage.directory
    umask = 0o777 & ~catalogue.directory.stat().st_mode
    software = stage.private.root.parents[1]
    options = {
        "module-naming-scheme": "EasyBuildMNS",
        "umask": f"{umask:03o}",
        "installpath-software": software,
        "installpath-modules": place / "modules",
        "suffix-modules-path": "all",
        "sourcepath": catalogue.images,
        "robot-paths": easyconfig.parent,
        "buildpath": place / "build",
        "repositorypath": place / "repository",
        "tmpdir": place / "tmp",
    }
    command = ["eb", str(easyconfig), "--rebuild", *(f"--{name}={value}" for name, value in options.items())]
    # the lock's name would be the whole path, and `publish` has its own
    return [*command, "--ignore-locks", "--disable-read-only-installdir"]


def install_staged(
    stage: Stage,
    easyconfig: Path,
    command: Sequence[str],
    *,
    profile: str,
    site: str,
    environ: Mapping[str, str],
) -> None:
    """Run `eb`, copy the installation to its final place, and keep the files that `place_kept` needs.

    `command`: As `eb_command` returns it for this easyconfig.
    `profile`, `site`: File or name of the site profile, and its name for the site.
    `environ`: Environment in which `eb` finds our easyblock.

    Raises CheckFailedError if `eb` failed, with its output.
    """
    check_replaceable(stage.catalogue, stage.software)  # before `eb`, which takes minutes
    ours = stage.directory / "site.toml"
    write_file(ours, render_toml({"name": site, "extends": profile}))
    # the module reads notices from the catalogues that are known here
    known = ":".join(filter(None, (str(stage.catalogue.directory), environ.get("HPCMOD_CATALOGUE", ""))))
    loaded = [syntax for syntax, path in _modules_below(stage.catalogue.modules, stage).items() if path.is_file()]
    # those of loaded modules would stop `eb`
    without = {name: value for name, value in environ.items() if not name.startswith("EBROOT")}
    variables = {**without, "HPCMOD_SITE": str(ours), "HPCMOD_CATALOGUE": known, _STAGED: " ".join(loaded)}
    done = run_eb(command[1:], variables)
    if done.status:
        output = f"{done.stdout}\n{done.stderr}"
        error = output.partition("\nERROR: ")[2].splitlines()
        said = "\n".join(error[:_SAID] or output.strip().splitlines()[-_SAID:])
        raise CheckFailedError(
            f"eb failed for {stage.name}/{stage.version} (exit code {done.status}):\n{said}",
            "Fix the reported problem; --dry-run shows the easyconfig and the complete command.",
        )
    modules = _modules_of(stage)
    stage.private.place()
    _keep(stage, easyconfig, modules)


def _modules_of(stage: Stage) -> dict[str, Path]:
    found = {syntax: path for syntax, path in _modules_below(stage.modules, stage).items() if path.is_file()}
    if not found:
        raise CheckFailedError(
            f"eb made no module {stage.name}/{stage.version} in {stage.modules}",
            "Check the EasyBuild configuration for `stop` or hooks that prevent it: eb --show-config",
        )
    return found


def _modules_below(tree: Path, stage: Stage) -> dict[str, Path]:
    return {syntax: tree / stage.name / f"{stage.version}{suffix}" for syntax, suffix in SUFFIXES.items()}


def _keep(stage: Stage, easyconfig: Path, modules: Mapping[str, Path]) -> None:
    new = stage.directory / _KEPT
    new.mkdir()
    for syntax, path in modules.items():
        text = stage.private.final_text(path.read_text(encoding="utf-8"))
        write_file(path, text)  # for the checks
        write_file(new / KEPT_MODULE[syntax], text)
    write_file(new / KEPT_EASYCONFIG, easyconfig.read_text(encoding="utf-8"))
    write_file(new / KEPT_FILES, render_kept_files(installed_files(stage.catalogue, stage.software)))


def place_kept(stage: Stage) -> None:
    """Move the kept files to their place in the catalogue, within `changing`: no one else reads them there."""
    mode = file_mode(stage.catalogue.directory)
    check_no_links(stage.catalogue, [stage.kept])
    with replacing_directory(stage.kept, partial(check_replaceable, stage.catalogue, stage.kept)) as new:
        for path in (stage.directory / _KEPT).iterdir():
            write_file(new / path.name, path.read_text(encoding="utf-8"), mode=mode)
