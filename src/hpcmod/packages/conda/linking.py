"""Put the files of conda packages into a prefix, with the path that it has in the container.

conda calls this linking. Nothing of a package is run, and nothing is written outside of the prefix.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from hpcmod.core.errors import BadInputError, NoSpaceError, VerificationError
from hpcmod.modules.values.place import SOURCE_TIME
from hpcmod.packages.conda.solving import CondaArchive, import_rattler
from hpcmod.packages.values.conda import CondaPackage

_ENTRY_POINT = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*=\s*([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")
_FULL = re.compile(r"os error (?:28|122)\b")  # ENOSPC and EDQUOT of Linux
_SCRIPTS = re.compile(r"bin/\.[^/]+-(?:pre|post)-link\.sh|etc/conda/activate\.d/[^/]+")
_RESERVED = re.compile(
    r"pyvenv\.cfg|lib64|bin/(?:python[\d.]*|pip3?)|conda-meta(?:/.*)?|lib/python[^/]+/site-packages/image\.pth"
)
"""Files that make the prefix a virtual environment of the image's Python."""
_RECORDS = re.compile(r"conda-meta(?:/.*)?")
_SCRIPT = """#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({function}())
"""


@dataclass(frozen=True)
class Prefix:
    """Where packages are put."""

    directory: Path
    inside: str
    """Its path in the container."""
    python: str
    """Version of its Python, e.g. 3.12; empty if it has none."""
    is_venv: bool = True
    """Whether it is a virtual environment of the image's Python, and not an environment of conda."""

    @property
    def reserved(self) -> re.Pattern[str]:
        """Return the paths that no package may have."""
        return _RESERVED if self.is_venv else _RECORDS

    @property
    def site_packages(self) -> str:
        """Return the directory of Python packages, relative to the prefix."""
        return f"lib/python{self.python}/site-packages"


@dataclass(frozen=True)
class _File:
    """A file of an extracted package."""

    source: Path
    path: str
    """Where it belongs, relative to the prefix."""
    placeholder: str = ""
    """Path in the file that is replaced by the prefix's."""
    is_text: bool = False


def link_conda(archives: tuple[CondaArchive, ...], prefix: Prefix, scratch: Path) -> tuple[CondaPackage, ...]:
    """Put the files of packages into a prefix, in this order, and return them with what was found in them.

    `scratch`: Directory for temporary files, on the same file system as the prefix.

    Raises VerificationError if a package has a path or link that leads out of the prefix; BadInputError if a package is
    damaged, or has files of the virtual environment.
    """
    packages = tuple(_link(archive, prefix, scratch / f"extracted-{n}") for n, archive in enumerate(archives))
    _check_links(prefix)
    return packages


def link_libraries(libraries: tuple[str, ...], prefix: Prefix) -> None:
    """Link shared libraries of the image into a prefix, where programs of conda packages look for them.

    `libraries`: Paths in the image, below a directory `lib`; those that the prefix has itself are left out.
    """
    directory = prefix.directory / "lib"
    directory.mkdir(exist_ok=True)
    for path in libraries:
        link = directory / PurePosixPath(path).name
        if not link.is_symlink() and not link.exists():
            link.symlink_to(path)


def _link(archive: CondaArchive, prefix: Prefix, directory: Path) -> CondaPackage:
    package = archive.package
    unpacked = _extract(archive, directory)
    is_python, entry_points = _read_link_json(directory / "info" / "link.json", package)
    files = list(_read_files(directory, package, prefix, is_python=is_python))
    size = 0
    for file in files:
        _check_path(file, package, prefix)
        size += _put(file, prefix, package, unpacked)
    paths = [file.path for file in files] + [_write_entry_point(text, prefix, package) for text in entry_points]
    _write_record(directory, paths, prefix, package)
    scripts = tuple(sorted(path for path in paths if _SCRIPTS.fullmatch(path)))
    return replace(package, size=size, not_run=scripts)


def _extract(archive: CondaArchive, directory: Path) -> tuple[int, int]:
    """Extract a package, and return when this began and ended, in nanoseconds by the clock of the file system."""
    rattler = import_rattler()
    directory.mkdir()
    began = directory.stat().st_mtime_ns
    try:
        rattler.package_streaming.extract(archive.path, directory)
        index = json.loads((directory / "info" / "index.json").read_text(encoding="utf-8"))
        name = str(index["name"]).lower()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as err:
        if _FULL.search(str(err)):
            raise NoSpaceError(
                f"{directory.parent}: not enough space to unpack {archive.path.name}: {err}",
                "Free some space there, or set TMPDIR to a directory on a larger disk.",
            ) from err
        raise VerificationError(
            f"{archive.package.url}: cannot be unpacked safely: {err}", "Check where the package comes from."
        ) from err
    if name != archive.package.name:
        raise VerificationError(
            f"{archive.package.url}: is the package {name}, expected {archive.package.name}",
            "Check where the package comes from.",
        )
    os.utime(directory)
    return began, directory.stat().st_mtime_ns


def _read_link_json(path: Path, package: CondaPackage) -> tuple[bool, list[str]]:
    """Return whether a package is for every Python, and its entry points."""
    try:
        noarch = json.loads(path.read_text(encoding="utf-8")).get("noarch") or {}
        return noarch.get("type") == "python", [str(text) for text in noarch.get("entry_points") or []]
    except FileNotFoundError:
        return False, []
    except (ValueError, AttributeError, TypeError, RecursionError) as err:
        raise BadInputError(f"{package.url}: info/link.json is damaged: {err}", "Choose another build.") from err


def _read_files(directory: Path, package: CondaPackage, prefix: Prefix, *, is_python: bool) -> Iterator[_File]:
    rattler = import_rattler()
    try:
        entries = rattler.PathsJson.from_package_directory_with_deprecated_fallback(directory).paths
    except rattler.exceptions.IoError as err:
        raise BadInputError(f"{package.url}: its list of files is damaged: {err}", "Choose another build.") from err
    for entry in entries:
        if entry.path_type.directory:
            continue
        path = str(entry.relative_path)
        target = path
        if is_python:
            target = re.sub(r"^site-packages/", f"{prefix.site_packages}/", path)
            target = re.sub(r"^python-scripts/", "bin/", target)
        embedded = entry.prefix_placeholder
        _check_plain(path, package)
        yield _File(
            directory / path,
            target,
            embedded.placeholder if embedded else "",
            embedded.file_mode.text if embedded else False,
        )


def _check_plain(path: str, package: CondaPackage) -> None:
    """Check that a path is relative, and does not lead upwards."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or not path.isprintable():
        raise VerificationError(
            f"{package.url}: has the file {path!r}, which is outside of the package",
            "Such a package may be malicious: check where it comes from.",
        )


def _check_path(file: _File, package: CondaPackage, prefix: Prefix) -> None:
    if prefix.reserved.fullmatch(file.path):
        whose = "the image's Python" if prefix.is_venv else "conda"
        raise BadInputError(
            f"{package.name} {package.version} has the file {file.path}, which belongs to {whose}",
            "It needs a conda environment of its own: hpcmod bake IMAGE --conda PACKAGE -o OUT.sif"
            if prefix.is_venv
            else "Choose another build.",
        )
    parent = os.path.realpath((prefix.directory / file.path).parent)
    if not f"{parent}/".startswith(f"{os.path.realpath(prefix.directory)}/"):
        raise _leads_out(file.path, package.url)


def _put(file: _File, prefix: Prefix, package: CondaPackage, unpacked: tuple[int, int]) -> int:
    """Put one file in its place, instead of that of an earlier package, and return its bytes."""
    try:
        status = file.source.lstat()
    except OSError as err:
        raise BadInputError(f"{package.url}: the file {file.path} is missing", "Choose another build.") from err
    if os.path.realpath(file.source.parent) != str(file.source.parent):  # through a link of the package
        raise _leads_out(file.path, package.url)
    target = prefix.directory / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if stat.S_ISLNK(status.st_mode):
        file.source.rename(target)
        return 0
    if not stat.S_ISREG(status.st_mode):
        raise _leads_out(file.path, package.url)
    if unpacked[0] <= status.st_mtime_ns <= unpacked[1]:  # rattler ignores errors of utimensat
        raise VerificationError(
            f"{package.url}: {file.path} has lost its time while it was unpacked in {file.source.parent}",
            "Check the quota and the disk there, or set TMPDIR to another directory.",
        )
    mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    if file.placeholder:
        old, new = file.placeholder.encode(), prefix.inside.encode()
        target.write_bytes(_replace_prefix(file.source.read_bytes(), old, new, file.is_text))
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        file.source.rename(target)
    target.chmod(mode)
    return status.st_size


def _replace_prefix(data: bytes, old: bytes, new: bytes, is_text: bool) -> bytes:
    """Return a file with another prefix; in a binary file, each text keeps its length."""
    if is_text:
        return data.replace(old, new)

    def replaced(found: re.Match[bytes]) -> bytes:
        text = found[0].replace(old, new)
        return text + bytes(len(found[0]) - len(text))

    if len(new) > len(old):
        raise BadInputError(f"the prefix {new.decode()} is longer than {len(old)} bytes")
    return re.sub(re.escape(old) + rb"[^\0]*", replaced, data)


def _write_entry_point(text: str, prefix: Prefix, package: CondaPackage) -> str:
    entry = _ENTRY_POINT.fullmatch(text.strip())
    path = f"bin/{entry[1]}" if entry else ""
    if not entry or prefix.reserved.fullmatch(path):
        raise BadInputError(f"{package.url}: has the entry point {text!r}", "Choose another build.")
    target = prefix.directory / path
    _check_path(_File(target, path), package, prefix)
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    script = _SCRIPT.format(
        python=f"{prefix.inside}/bin/python", module=entry[2], first=entry[3].partition(".")[0], function=entry[3]
    )
    target.write_text(script, encoding="utf-8")
    target.chmod(0o755)
    os.utime(target, (SOURCE_TIME, SOURCE_TIME))
    return path


def _write_record(directory: Path, paths: list[str], prefix: Prefix, package: CondaPackage) -> None:
    """Write the record that conda keeps of a package; equal packages give equal records."""
    index = json.loads((directory / "info" / "index.json").read_text(encoding="utf-8"))
    values = {**index, "files": sorted(paths), "url": package.url, "sha256": package.sha256}
    records = prefix.directory / "conda-meta"
    records.mkdir(exist_ok=True)
    path = records / f"{package.name}-{package.version}-{package.build}.json"
    path.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.utime(path, (SOURCE_TIME, SOURCE_TIME))


def _check_links(prefix: Prefix) -> None:
    """Check that no link of the packages leads out of the prefix, where pip in the container could then write."""
    top = os.path.realpath(prefix.directory)
    for path, _, files in os.walk(top):
        for name in [*files, *(entry.name for entry in os.scandir(path) if entry.is_symlink())]:
            link = Path(path, name)
            relative = str(link.relative_to(top))
            if not link.is_symlink() or (prefix.is_venv and _RESERVED.fullmatch(relative)):
                continue
            if not os.path.realpath(link).startswith(f"{top}/"):
                raise _leads_out(relative, "a conda package")


def _leads_out(path: str, origin: str) -> VerificationError:
    return VerificationError(
        f"{origin}: {path} is or uses a link that leads out of the package",
        "Such a package may be malicious: check where it comes from.",
    )
