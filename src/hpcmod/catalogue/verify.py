"""Check that a published container is complete and unchanged: image, installation, module, checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcmod import __version__
from hpcmod.catalogue.records.store import Catalogue, ask_to_open, is_refused, software_of
from hpcmod.catalogue.values.record import CatalogueRecord, publishing_again, refusal
from hpcmod.catalogue.visible.kept import KEPT_EASYCONFIG, KEPT_MODULE, kept_directory
from hpcmod.catalogue.visible.modulefiles import alias_files, is_executable, script_files, visible_files
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.reading import read_file
from hpcmod.core.progress import Progress
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.modules import has_additions, read_record
from hpcmod.modules.values.install_record import PACKED, RECORD, USER_SOFTWARE, is_started

_REBUILD = "Render it again from the records: hpcmod catalogue rebuild"

_UPGRADE = "Unless changed by hand: hpcmod catalogue refresh --dry-run, then without it, then: hpcmod catalogue rebuild"

IMAGE = "image"
"""Subject of the findings about image data."""


def find_removed(catalogue: Catalogue, record: CatalogueRecord) -> list[str]:
    """Return which files of a container were removed or replaced, without which it cannot become visible."""
    kept = kept_directory(catalogue, record)
    modules = [kept / name for name in KEPT_MODULE.values()]
    image, software = catalogue.images / record.sif, software_of(catalogue, record)
    is_here = image.is_file() and image.stat().st_size == record.size
    missing = [str(path) for path, found in ((image, is_here), (software, software.exists())) if not found]
    return missing + ([] if any(path.is_file() for path in modules) else [str(kept)])


def check_there(catalogue: Catalogue, record: CatalogueRecord) -> None:
    """Raise NotFoundError if files of a container that is to become visible were removed."""
    missing = find_removed(catalogue, record)
    if missing:
        raise NotFoundError(
            f"{record.module} cannot be restored; missing: {', '.join(missing)}",
            "Publish its image again under another version.",
        )


def verify_container(
    catalogue: Catalogue, record: CatalogueRecord, *, progress: Progress | None = None, images: bool = True
) -> Iterator[Finding]:
    """Compare a container as `compare_container` does; what this user may not read is a finding, too."""
    try:
        yield from compare_container(catalogue, record, progress=progress, images=images)
    except PermissionError as err:
        yield Finding(FAIL, "files", f"{err.filename}: {err.strerror}", ask_to_open(Path(err.filename)))
    except BadInputError as err:
        yield Finding(FAIL, "files", err.message, err.cure or _repair(record))


def compare_container(
    catalogue: Catalogue, record: CatalogueRecord, *, progress: Progress | None = None, images: bool = True
) -> Iterator[Finding]:
    """Compare a container with its record: its image, byte by byte, and what users see of it.

    `images`: If False, only the size of the image is compared.

    Raises PermissionError or BadInputError if a file cannot be read.
    """
    image = catalogue.images / record.sif
    if images and is_refused(catalogue, record):
        images = False
        yield Finding(WARN, IMAGE, f"not read: {refusal(record)}")
    yield _verify_image(image, record, progress, read=images)
    own = software_of(catalogue, record) / record.sif
    if images and own.is_file() and not (image.is_file() and own.samefile(image)):
        yield _verify_image(own, record, progress)
    yield from _verify_files(catalogue, record)
    yield from _verify_visible(catalogue, record)
    yield from find_unrendered(catalogue, record)
    yield from _verify_licence(catalogue, record)
    stale = [check.name for check in record.checks if not check.passed or check.sha256 != record.sha256]
    if stale or not record.checks:
        yield Finding(
            WARN,
            "checks",
            "no check passed with this image" if not record.checks else f"not with this image: {stale}",
        )
    else:
        yield Finding(OK, "checks", f"{len(record.checks)} passed with this image")


def _verify_image(path: Path, record: CatalogueRecord, progress: Progress | None, *, read: bool = True) -> Finding:
    if not path.is_file():
        return _gone(record, IMAGE, f"{path} is missing")
    if path.stat().st_size != record.size:
        found = f"{path} has {path.stat().st_size} bytes, expected {record.size} as published"
        return Finding(FAIL, IMAGE, found, _repair(record))
    if not read:
        return Finding(OK, IMAGE, f"{path}, {record.size} bytes, not read")
    sha256 = file_sha256(path, progress)
    if sha256 != record.sha256:
        found = f"{path} has sha256 {sha256}, expected {record.sha256} as published"
        return Finding(FAIL, IMAGE, found, _repair(record))
    return Finding(OK, IMAGE, f"{path}, sha256 {sha256}")


def _verify_files(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[Finding]:
    root = software_of(catalogue, record)
    kept, layer = read_record(root), root / USER_SOFTWARE
    files = [name for name, _ in kept.files]
    missing = [str(root / name) for name in files if not (root / name).is_file()]
    if kept.own_packages and not layer.is_dir() and not (root / PACKED).is_file():
        missing.append(str(layer))
    if not files and (root / RECORD).is_file():
        yield _gone(record, "installation", f"{root / RECORD}: damaged, or of an hpcmod before 1.0.0")
    elif missing or not files:
        yield _gone(record, "installation", f"missing: {', '.join(missing[:3]) or root}")
    elif layer.is_dir() and has_additions(layer):
        cure = f"Remove them: rm -r {sh_word(str(layer))}. {_repair(record)}"
        yield Finding(FAIL, "installation", f"{layer}: packages were added, which all users get", cure)
    else:
        scripts = script_files(catalogue, record)
        changed = [str(path) for path, text in scripts.items() if not _has(path, text)]
        closed = (path for path in scripts if is_started(str(path.relative_to(root))) and not is_executable(path))
        changed += [f"{path} (not executable)" for path in closed if not path.is_symlink()]
        if changed:
            yield Finding(FAIL, "installation", f"{', '.join(changed[:3])}: not as published", _REBUILD)
        else:
            yield Finding(OK, "installation", f"{len(files)} files in {root}")


def _gone(record: CatalogueRecord, rule: str, found: str) -> Finding:
    if record.state == "retired":
        return Finding(WARN, rule, f"{found}; gc removes what is retired")
    return Finding(FAIL, rule, found, _repair(record))


def _repair(record: CatalogueRecord) -> str:
    return f"To repair it, publish its image again: {publishing_again(record)}"


def _verify_visible(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[Finding]:
    wanted = dict(visible_files(catalogue, record))
    version = read_record(software_of(catalogue, record)).hpcmod
    for path, text in wanted.items():
        if _has(path, text):
            yield Finding(OK, "visible", str(path))
        elif version in ("", __version__):
            yield Finding(FAIL, "visible", f"{path}: not as published", _REBUILD)
        else:
            differs = f"{path}: not as hpcmod {__version__} writes it; hpcmod {version} published it"
            yield Finding(FAIL, "visible", differs, _UPGRADE)
    for path, text in alias_files(catalogue, record.name, catalogue.named(record.name)):
        if text and not _has(path, text):
            yield Finding(FAIL, "visible", f"{path}: not as published", _REBUILD)


def find_unrendered(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[Finding]:
    """Yield the missing files from which the modulefile and the easyconfig of a container are rendered."""
    kept = kept_directory(catalogue, record)
    if not any((kept / name).is_file() for name in KEPT_MODULE.values()):
        yield _gone(record, "visible", f"missing: {kept}")
    elif record.publication.easyconfig and not (kept / KEPT_EASYCONFIG).is_file():
        yield _gone(record, "visible", f"missing: {kept / KEPT_EASYCONFIG}")


def _verify_licence(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[Finding]:
    path = catalogue.licences / record.licence
    if record.licence and not (path.is_file() and file_sha256(path) == record.licence):
        cure = f"{_repair(record)} --licence FILE"
        yield Finding(FAIL, "licence", f"{path}: missing, or another text than users accept", cure)


def _has(path: Path, text: str) -> bool:
    try:
        return read_file(path, len(text.encode())) == text.encode()
    except OSError:
        return False
