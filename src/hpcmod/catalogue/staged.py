"""Install a container with the real `eb` where it will be used, but with its module where nobody looks yet."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.renderings.kept import (
    KEPT_EASYCONFIG,
    KEPT_FILES,
    KEPT_MODULE,
    installed_files,
    render_files,
)
from hpcmod.catalogue.sharing import group_may_write
from hpcmod.catalogue.store import Catalogue
from hpcmod.catalogue.visible import remove_code
from hpcmod.errors import CheckFailedError
from hpcmod.fs.tree import write_file
from hpcmod.install.eb import run_eb

_KEPT = "kept"
_SUFFIX = {".lua": "Lua", "": "Tcl"}
_SAID = 15  # lines of what a failed `eb` said


@dataclass(frozen=True)
class Stage:
    """The directory of a container that is about to be published."""

    catalogue: Catalogue
    name: str
    version: str
    """With the suffix."""

    @property
    def directory(self) -> Path:
        """Removed when all is done, or went wrong."""
        return self.catalogue.staging / f"{self.name}@{self.version}"  # no name holds an @

    @property
    def modules(self) -> Path:
        """A module tree that holds nothing but this module."""
        return self.directory / "modules" / "all"

    @property
    def software(self) -> Path:
        """The installation, at its final place."""
        return self.catalogue.software / self.name / self.version

    @property
    def kept(self) -> Path:
        """What the catalogue keeps of it when it is published."""
        return self.catalogue.kept / self.name / self.version

    def clear(self) -> None:
        """Begin anew."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def remove(self) -> None:
        """Leave nothing of the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def discard(self) -> None:
        """Remove all that was put in place, and the directory."""
        remove_code(self.catalogue, self.name, self.version)
        for place in (self.kept, self.software, self.directory):
            shutil.rmtree(place, ignore_errors=True)


def eb_command(stage: Stage, easyconfig: Path) -> list[str]:
    """Make the command line: whatever the site has configured, the module ends in the stage, by its plain name."""
    catalogue, place = stage.catalogue, stage.directory
    writable = ["--group-writable-installdir"] if group_may_write(catalogue.directory) else []
    umask = 0o777 & ~catalogue.directory.stat().st_mode
    return [
        *("eb", str(easyconfig), "--rebuild", "--module-naming-scheme=EasyBuildMNS", f"--umask={umask:03o}", *writable),
        *(f"--installpath-software={catalogue.software}", f"--installpath-modules={place / 'modules'}"),
        *("--suffix-modules-path=all", f"--sourcepath={catalogue.images}", f"--robot-paths={easyconfig.parent}"),
        *(f"--buildpath={place / 'build'}", f"--repositorypath={place / 'repository'}"),
        f"--locks-dir={place / 'locks'}",
    ]


def install_staged(stage: Stage, easyconfig: Path, *, profile: str, site: str, environ: Mapping[str, str]) -> None:
    """Run `eb`, and put aside what it made for `place_kept`.

    Parameters
    ----------
    profile, site
        File or name of the site profile, and what the site is called in it.
    environ
        In which `eb` finds our easyblock.

    Raises
    ------
    CheckFailedError
        If `eb` failed, with what it said.
    """
    before = stage.software / "easybuild"
    if before.is_dir():  # another admin's log files, which `eb` would write over
        before.rename(stage.directory / "easybuild-before")
    ours = stage.directory / "site.toml"
    # the image is in the catalogue already: one file with two names, not two files
    text = f'name = {_toml(site)}\nextends = {_toml(profile)}\n[images]\ninstall_mode = "link"\n'
    write_file(ours, text)
    # the module looks for notices in the catalogues that are known here
    known = ":".join(filter(None, (str(stage.catalogue.directory), environ.get("HPCMOD_CATALOGUE", ""))))
    done = run_eb(eb_command(stage, easyconfig)[1:], {**environ, "HPCMOD_SITE": str(ours), "HPCMOD_CATALOGUE": known})
    if done.status:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_SAID:])
        raise CheckFailedError(
            f"eb failed for {stage.name}/{stage.version} (exit code {done.status}):\n{said}",
            "Mend what it says is wrong; with --dry-run the easyconfig and the whole command are shown.",
        )
    _keep(stage, easyconfig)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _keep(stage: Stage, easyconfig: Path) -> None:
    """Put aside what the catalogue will keep: modulefile, easyconfig and scripts."""
    new = stage.directory / _KEPT
    new.mkdir()
    found = {suffix: stage.modules / stage.name / f"{stage.version}{suffix}" for suffix in _SUFFIX}
    if not any(path.is_file() for path in found.values()):
        raise CheckFailedError(
            f"eb made no module {stage.name}/{stage.version} in {stage.modules}",
            "Look for what keeps eb from it, as `stop` or hooks would: eb --show-config",
        )
    for suffix, path in found.items():
        if path.is_file():
            write_file(new / KEPT_MODULE[_SUFFIX[suffix]], path.read_text(encoding="utf-8"))
    write_file(new / KEPT_EASYCONFIG, easyconfig.read_text(encoding="utf-8"))
    write_file(new / KEPT_FILES, render_files(installed_files(stage.software)))


def place_kept(stage: Stage) -> None:
    """Put what is kept where the catalogue looks for it, within `changing`: nobody else looks there."""
    stage.kept.parent.mkdir(parents=True, exist_ok=True)
    if stage.kept.exists():
        stage.kept.rename(stage.directory / f"{_KEPT}-before")
    (stage.directory / _KEPT).rename(stage.kept)
