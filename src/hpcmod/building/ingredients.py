"""Collect the inputs of a build: the recipe, its scripts, the lock file, and sources that are available locally."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

from hpcmod.building.shipped import recipe_components, recipe_lock, recipe_sources, shipped_recipes
from hpcmod.building.values.build_plan import BUILD_ROOT, BuildPlan, Download
from hpcmod.building.values.building import BuildRequest, Shipped, make_build_plan, make_own_plan
from hpcmod.building.values.definition import files_of
from hpcmod.building.values.pins import Pin, merge_pins, new_pins, parse_lock
from hpcmod.building.values.recipe import Recipe, check_among, parse_addresses, parse_recipe
from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError, VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.reading import UnusableFileError, read_text
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.tree import write_file
from hpcmod.core.lock import hold
from hpcmod.core.progress import Progress
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import Access, Sif
from hpcmod.images.acquire.fetch import FileRequest, fetch_file
from hpcmod.images.registry import resolve
from hpcmod.machine import state_directory

OWN_RECIPE = "recipe.toml"
"""Name of the recipe in a directory of the user."""

_USED = f"{BUILD_ROOT}/used"
_USED_LIMIT = 1 << 20  # bytes
_TEXT_LIMIT = 4 << 20  # bytes of a Dockerfile or a lock
_HEADER = "# Sources pinned on first use, one line per file: KIND NAME VERSION SHA256 ORIGIN. See `hpcmod build`.\n"


@dataclass(frozen=True)
class SourceStore:
    """Directories of sources, and the lock file with their checksums."""

    lock: Path
    """The user's lock file, which may be missing; it takes precedence over the lock file shipped with hpcmod."""
    downloads: Path
    """Directory for downloaded files."""
    offline_sources: Path | None = None
    """Directory that is searched first."""
    offline: bool = False
    """Whether downloads are forbidden."""
    tell: Callable[[str], None] = lambda _: None


def plan_recipe(name: str, request: BuildRequest, *, store: SourceStore) -> BuildPlan:
    """Make the plan of a recipe, by its name or by the path of its directory; nothing is downloaded.

    Raises BadInputError if there is no such recipe, or it does not support the request; NotFoundError if a given
    directory is missing.
    """
    if store.offline_sources and not store.offline_sources.is_dir():
        raise NotFoundError(f"--offline-sources {store.offline_sources}: no such directory", "Fix the path.")
    recipe, shipped = _load(name, store.lock)
    return make_build_plan(recipe, request, shipped=shipped, contents=_contents(request, recipe))


def gather(name: str, request: BuildRequest, *, store: SourceStore, progress: Progress | None = None) -> BuildPlan:
    """Make the plan of a recipe with all its sources: from the offline directory, else downloaded.

    Sources used for the first time are reported and added to the user's lock file before the build starts.

    Raises NotFoundError if sources are missing and may not be downloaded; all missing sources are listed;
    VerificationError if a source does not have the checksum in the lock file.
    """
    draft = plan_recipe(name, request, store=store)
    base = _pin_base(draft.base, store)
    files = _find_all(draft.sources, store)
    for source, path in files.items():
        if path is None:
            files[source] = _download(source, store, progress)
    record_first_use([*base, *(_pin(source, path) for source, path in files.items() if path)], store=store)
    recipe, shipped = _load(name, store.lock)
    return make_build_plan(
        recipe,
        request,
        shipped=shipped,
        contents=_contents(request, recipe),
        source_files=[(source.file_name, str(path)) for source, path in files.items()],
    )


def find_recipe(source: str, dockerfile: Path | None) -> str:
    """Return the recipe that a name or a directory means; empty if it is the user's own Dockerfile or definition file.

    `source`: The name of a shipped recipe, a directory, or a definition file; a directory of that name is `./NAME`.
    `dockerfile`: The Dockerfile, if one was named.
    """
    if dockerfile or source.endswith(".def"):
        return ""
    if source in shipped_recipes():
        return source
    if Path(source, OWN_RECIPE).is_file():
        return source if "/" in source else f"./{source}"
    return "" if Path(source).is_dir() else source


def plan_own(source: Path, request: BuildRequest, *, dockerfile: Path | None = None) -> BuildPlan:
    """Make the plan of a user's own directory with a Dockerfile, or of a definition file.

    `dockerfile`: Path of the Dockerfile, here or in the directory; None for `Dockerfile` in it.

    Raises NotFoundError if the directory or the file is missing; BadInputError if the request chooses parts of a
    recipe.
    """
    if request != BuildRequest(request.architecture):
        raise BadInputError(
            f"{source}: not a recipe, so the options that choose parts of one do not apply: --mpi, --ofi, --with, "
            "--set, --base, --host-libs, --wheel-dir",
            "Leave them out, and write the same into your file.",
        )
    if source.suffix == ".def":
        return _plan_definition(source, request.architecture)
    if not source.is_dir():
        raise NotFoundError(f"{source}: no such directory", "Give the directory with the Dockerfile.")
    named = dockerfile or Path("Dockerfile")
    file = named if dockerfile and named.is_file() else source / named
    if not file.is_file():
        raise NotFoundError(
            f"{source}: has no {named}" + f" and no {OWN_RECIPE}" * (not dockerfile),
            "Name the Dockerfile: hpcmod build DIRECTORY -f DOCKERFILE",
        )
    inside = ((path, path.relative_to(source)) for path in source.rglob("*"))
    files = (path for path, name in inside if ".git" not in name.parts and ".sif" not in name.suffixes)
    return make_own_plan(
        source.resolve().name,
        "Dockerfile",
        _read(file),
        context=str(source.resolve()),
        architecture=request.architecture,
        contents=_digest(source, files),
    )


def _plan_definition(file: Path, architecture: str) -> BuildPlan:
    """Make the plan of a definition file; as for Apptainer, its paths are relative to the working directory."""
    if not file.is_file():
        raise NotFoundError(f"{file}: no such definition file", "Check the path.")
    text, here = _read(file), Path.cwd()
    sha256 = hashlib.sha256()
    for pattern in files_of(text):
        for top in map(Path, sorted(glob(str(here / pattern)))):  # noqa: PTH207 - Path.glob takes no absolute pattern
            sha256.update(f"{pattern}\0{_digest(top.parent, [top, *top.rglob('*')])}\0".encode())
    return make_own_plan(
        file.stem, "definition", text, context=str(here), architecture=architecture, contents=sha256.hexdigest()
    )


def read_used(sif: Path) -> tuple[Pin, ...]:
    """Read from a built image which sources and pip packages it was built from."""
    with Sif(sif).root() as squashfs:
        if squashfs.find(_USED) is None:
            return ()
        text = squashfs.read_bytes(_USED, _USED_LIMIT).decode("utf-8", errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith("distribution ")]
    return parse_lock("\n".join(dict.fromkeys(lines)), f"{sif.name}:{_USED}")


def record_first_use(used: Sequence[Pin], *, store: SourceStore) -> None:
    """Add sources that are in no lock file to the user's lock file, and report them."""
    if not new_pins(used, _known_pins(store.lock)):
        return
    holder = store.lock.with_name(f".{store.lock.name}.lock")
    with hold(holder, tell=store.tell):
        added = new_pins(used, _known_pins(store.lock))
        before = _read(store.lock) if store.lock.exists() else _HEADER
        write_file(store.lock, before + "".join(f"{pin}\n" for pin in added))
    for pin in added:
        store.tell(f"first use of {pin.name} {pin.version}: sha256 {pin.sha256}, noted in {store.lock}")


def _load(name: str, lock: Path) -> tuple[Recipe, Shipped]:
    """Return a recipe and the scripts for it; those in its own directory come before the shipped ones."""
    shipped = Shipped(recipe_components(), parse_addresses(recipe_sources()), _known_pins(lock))
    if "/" not in name:
        recipes = shipped_recipes()
        check_among(name, recipes, f"unknown recipe {name!r}", f"Recipes: {', '.join(sorted(recipes))}.")
        return parse_recipe(recipes[name], name), shipped
    directory = Path(name)
    file = directory / OWN_RECIPE
    if not file.is_file():
        raise NotFoundError(f"{file}: no such recipe", "Give the directory of a recipe, or a name: hpcmod build --list")
    recipe = parse_recipe(_read(file), directory.resolve().name.lower())
    files = tuple((inside, str(directory.resolve() / path)) for inside, path in recipe.files)
    missing = [path for _, path in files if not Path(path).exists()]
    if missing:
        raise NotFoundError(f"{file}: {missing[0]} does not exist", "Correct [files] in the recipe.")
    scripts = {script.stem: _read(script) for script in sorted((directory / "components").glob("*.sh"))}
    own = replace(shipped, components={**shipped.components, **scripts})
    return replace(recipe, files=files), own


def _read(path: Path) -> str:
    try:
        return read_text(path, _TEXT_LIMIT)
    except UnicodeDecodeError as err:
        raise BadInputError(f"{path}: not valid UTF-8", "Save it as UTF-8.") from err
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Choose another file.") from err


def _known_pins(lock: Path) -> tuple[Pin, ...]:
    own = _read(lock) if lock.exists() else ""
    return merge_pins(parse_lock(own, str(lock)), parse_lock(recipe_lock(), "recipes/lock"))


def _find_all(sources: Sequence[Download], store: SourceStore) -> dict[Download, Path | None]:
    """Find the sources on disk; None for those to download."""
    paths = {source: _find(source, store) for source in sources}
    missing = [source for source, path in paths.items() if path is None]
    if missing and store.offline:
        listed = "\n".join(f"  {source.file_name}  from {source.url}" for source in missing)
        places = " and ".join(str(place) for place in (store.offline_sources, store.downloads) if place)
        raise NotFoundError(
            f"{len(missing)} of {len(paths)} sources are missing in {places}:\n{listed}",
            "Download these on a machine with network access, and give their directory: --offline-sources DIR",
        )
    return paths


def _find(source: Download, store: SourceStore) -> Path | None:
    """Find a source by hpcmod's file name, or by its upstream file name."""
    names = dict.fromkeys((source.file_name, source.url.rpartition("/")[2]))
    offline = [store.offline_sources / name for name in names] if store.offline_sources else []
    return next((path for path in (*offline, store.downloads / source.file_name) if path.is_file()), None)


def _download(source: Download, store: SourceStore, progress: Progress | None) -> Path:
    store.tell(f"downloading {source.url}")
    store.downloads.mkdir(parents=True, exist_ok=True)
    final = store.downloads / source.file_name
    with scratch(final, resumable=True) as made:
        fetch_file(FileRequest(source.url, made.path, source.sha256 or None), progress=progress, tell=store.tell)
        made.put()
    return final


def _pin_base(text: str, store: SourceStore) -> list[Pin]:
    """Ask the registry for the digest of a base; if it does not answer, leave the tag for the engine to resolve."""
    reference = ImageReference.parse(text)
    if reference.kind != "docker" or reference.pinned or store.offline:
        return []
    try:
        digest = resolve(reference, access=Access(announce=store.tell), cache=None)
    except HpcmodError as err:
        store.tell(f"using the base image by its tag, because its digest is unknown: {err.message}")
        return []
    name = f"{reference.registry}/{reference.repository}"
    return [Pin("base", name, reference.tag, digest.removeprefix("sha256:"), "tag")]


def _pin(source: Download, path: Path) -> Pin:
    """Return the lock file entry of a source."""
    digest = file_sha256(path)
    if source.sha256 and source.sha256 != digest:
        raise VerificationError(
            f"{path}: wrong checksum for {source.name} {source.version}: the lock has {source.sha256}, found {digest}",
            "Download it again; if the file is right, correct its line in the lock file.",
        )
    return Pin("source", source.name, source.version, digest, source.url)


def _contents(request: BuildRequest, recipe: Recipe) -> str:
    """Return a digest of the content of the directories that are copied into the image."""
    digests = [_mark_of_base(request.base)] if request.base else []
    for option, place in (("--wheel-dir", request.wheels), ("--host-libs", request.host_libs)):
        directory = Path(place)
        if not place:
            continue
        if not directory.is_dir() or not any(directory.iterdir()):
            raise NotFoundError(f"{option} {place}: missing or empty directory", "Choose another directory.")
        digests.append(_digest(directory, directory.rglob("*")))
    for inside, place in recipe.files:
        path = Path(place)
        digests.append(f"{inside} {_digest(path, path.rglob('*')) if path.is_dir() else file_sha256(path)}")
    return " ".join(digests)


def _mark_of_base(text: str) -> str:
    """Return a mark of the content of a local base image, because the file at a path may change."""
    reference = ImageReference.parse(text)
    path = Path(reference.path)
    if reference.kind == "oci" and (path / "index.json").is_file():
        return file_sha256(path / "index.json")
    if reference.path and path.is_file():
        return f"{path.stat().st_size} {path.stat().st_mtime_ns}"
    return ""


def _digest(directory: Path, paths: Iterable[Path]) -> str:
    """Return a sha256 of the names and contents of files below a directory; for wheels, of the CRCs they list."""
    sha256 = hashlib.sha256()
    for path in sorted(paths):
        if path.is_file():
            sha256.update(f"{path.relative_to(directory)}\0{_mark(path)}\0".encode(errors="surrogateescape"))
    return sha256.hexdigest()


def _mark(path: Path) -> str:
    """Return a mark of a file's content; for wheels, which may have gigabytes, the CRCs in their directory."""
    if path.suffix != ".whl":
        return file_sha256(path)
    try:
        with zipfile.ZipFile(path) as wheel:
            return " ".join(f"{member.filename}:{member.CRC:08x}" for member in wheel.infolist())
    except zipfile.BadZipFile as err:
        raise BadInputError(f"{path}: not a wheel: {err}", "Remove it from --wheel-dir.") from err


def default_lock(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's lock file: $HPCMOD_LOCK, else in the user's state directory."""
    named = environ.get("HPCMOD_LOCK")
    return Path(named) if named else state_directory(environ) / "recipes.lock"
