"""Choose conda packages and download them, with rattler, which is only imported here."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NotFoundError, RemoteError, VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.packages.conda.image import CondaImage
from hpcmod.packages.values.conda import CondaPackage, CondaPart, conda_name

if TYPE_CHECKING:
    from rattler import GenericVirtualPackage, RepoDataRecord

CUDA_VARIABLE = "CONDA_OVERRIDE_CUDA"
"""conda's own variable for the version of CUDA, where no GPU is seen."""

_AT_ONCE = 8  # downloads


@dataclass(frozen=True)
class CondaArchive:
    """A downloaded package."""

    package: CondaPackage
    path: Path


def import_rattler() -> ModuleType:
    """Return the library rattler.

    Raises LackingError if it is not installed.
    """
    try:
        import rattler
        import rattler.exceptions
        import rattler.package_streaming
    except ImportError as err:
        raise LackingError(
            "conda packages need the Python package py-rattler, which is not installed",
            f"Install it: {sys.executable} -m pip install 'hpcmod[conda]'"
            if os.access(sys.prefix, os.W_OK)
            else f"Ask your site's support to add hpcmod[conda] to {sys.prefix}, or install an hpcmod of your own.",
        ) from err
    return rattler


def solve_conda(
    part: CondaPart, image: CondaImage, scratch: Path, *, module: str, cure: str, cuda: str = ""
) -> tuple[CondaPackage, ...]:
    """Return the conda packages that requirements need in addition to those of the image, dependencies first.

    Packages of the image keep their builds. Python may be among them, if the image's is not conda's. From a lock file,
    these are exactly its packages.

    `scratch`: Directory for temporary files.
    `module`: The container, for messages.
    `cure`: What to do if they do not fit.
    `cuda`: Version of CUDA of the nodes where they will run, e.g. 12.4; empty if there is none.

    Raises BadInputError if they do not fit together or the image; NotFoundError if no channel has one of them;
    RemoteError if a channel cannot be reached.
    """
    if part.exact:
        return part.packages
    rattler = import_rattler()
    own = [_as_record(record, scratch) for record in image.records]
    constraints = [package.pin for package in part.packages if package.name not in image.names]
    listed = (record["constrains"] for record in image.records if isinstance(record["constrains"], list))
    constraints += [str(text) for texts in listed for text in texts]

    async def solve() -> list[RepoDataRecord]:
        found: list[RepoDataRecord] = await rattler.solve(
            sources=part.channels,
            specs=part.requirements,
            gateway=rattler.Gateway(cache_dir=scratch / "repodata", client=rattler.Client.default_client()),
            platforms=[image.subdir, "noarch"],
            pinned_packages=own,
            virtual_packages=list(_virtual_packages(image, cuda)),
            constraints=constraints,
        )
        return found

    try:
        records = asyncio.run(solve())
    except (rattler.exceptions.SolverError, rattler.exceptions.GatewayError) as err:
        raise _explain(err, part, image, module, cure) from err
    except rattler.exceptions.InvalidVersionError as err:
        raise BadInputError(f"{CUDA_VARIABLE}={cuda}: not a version", "For example: 12.4") from err
    except (rattler.exceptions.InvalidMatchSpecError, rattler.exceptions.InvalidChannelError) as err:
        raise BadInputError(f"conda requirement or channel: {err}", "Write it as conda does: 'samtools=1.19'.") from err
    by_name = {record.name.normalized: record for record in records}
    ordered = [record.name.normalized for record in rattler.PackageRecord.sort_topologically(records)]
    return tuple(_as_package(by_name[name]) for name in ordered if name not in image.names)


def check_no_python(packages: Sequence[CondaPackage], part: CondaPart, *, module: str, cure: str) -> None:
    """Check that requirements need no Python of conda.

    Raises BadInputError if they do: it would be a second one in the container.
    """
    if any(package.name == "python" for package in packages):
        asked = ", ".join(part.requirements)
        raise BadInputError(
            f"{asked}: needs conda's Python, but the Python of {module} is not conda's",
            f"A second Python would not see the image's packages. {cure}",
        )


def _explain(err: Exception, part: CondaPart, image: CondaImage, module: str, cure: str) -> HpcmodError:
    text = str(err).strip()
    detail = "\n".join(f"  {line}" for line in text.splitlines())
    asked = ", ".join(part.requirements)
    if type(err).__name__ == "GatewayError":
        return RemoteError(f"a conda channel cannot be read:\n{detail}", "Check --channel, and the proxy.")
    missing = [f"No candidates were found for {conda_name(spec)} " for spec in part.requirements]
    if any(f"{start}{end}" in text for start in missing for end in ("*", "[channel=")):
        return NotFoundError(
            f"{asked}: not found in {', '.join(part.channels)}:\n{detail}", "Check the name, or --channel."
        )
    return BadInputError(
        f"{asked}: does not fit {module} (glibc {image.glibc or 'unknown'}, {len(image.records)} conda packages) "
        f"or what you have added before:\n{detail}",
        f"Choose other versions, or {cure}",
    )


def fetch_conda(packages: Sequence[CondaPackage], directory: Path) -> tuple[CondaArchive, ...]:
    """Download packages into a directory and compare their checksums.

    Raises VerificationError if one has another checksum than the channel's index or the lock file has; RemoteError,
    NotFoundError if one cannot be downloaded.
    """
    rattler = import_rattler()
    client = rattler.Client.default_client()
    limit = asyncio.Semaphore(_AT_ONCE)
    directory.mkdir()

    async def fetch(number: int, package: CondaPackage) -> CondaArchive:
        parts = urlsplit(package.url)
        path = directory / f"{number}-{parts.path.rpartition('/')[2]}"
        if parts.scheme == "file":
            try:
                shutil.copyfile(unquote(parts.path), path)
            except FileNotFoundError as err:
                raise NotFoundError(f"{unquote(parts.path)}: no such file", "Check the channel.") from err
        else:
            async with limit:
                try:
                    await rattler.package_streaming.download_to_path(client, package.url, path)
                except (RuntimeError, OSError) as err:
                    raise RemoteError(f"{package.url}: {err}", "Check the channel, and the proxy.") from err
        digest = file_sha256(path)
        if package.sha256 and digest != package.sha256:
            raise VerificationError(
                f"{package.url}: expected sha256 {package.sha256}, got {digest}",
                "The file was changed after the channel was indexed or the lock file written: do not use it.",
            )
        return CondaArchive(replace(package, sha256=digest), path)

    async def fetch_all() -> list[CondaArchive]:
        return await asyncio.gather(*(fetch(number, package) for number, package in enumerate(packages)))

    return tuple(asyncio.run(fetch_all()))


def _virtual_packages(image: CondaImage, cuda: str) -> Iterator[GenericVirtualPackage]:
    """Yield what the container and its machine have that no package is."""
    from rattler import BuildString, GenericVirtualPackage, PackageName, Version

    machine = {"linux-64": "x86_64", "linux-aarch64": "aarch64", "linux-ppc64le": "ppc64le"}[image.subdir]
    release = re.match(r"\d+(?:\.\d+)*", platform.release())
    kernel = release[0] if release else ""
    for name, version, build in (
        ("__unix", "0", "0"),
        ("__linux", kernel, "0"),
        ("__glibc", image.glibc, "0"),
        ("__archspec", "1", machine),
        ("__cuda", cuda, "0"),
    ):
        if version:
            yield GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))


def _as_record(values: dict[str, object], scratch: Path) -> RepoDataRecord:
    """Return a record of the image as one of rattler's."""
    from rattler import PackageRecord, RepoDataRecord

    path = scratch / "record.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    name = f"{values['name']}-{values['version']}-{values['build']}.conda"
    return RepoDataRecord(PackageRecord.from_index_json(path), name, f"file:///image/{name}", "file:///image")


def _as_package(record: RepoDataRecord) -> CondaPackage:
    sha256 = record.sha256.hex() if record.sha256 else ""
    return CondaPackage(record.name.normalized, str(record.version), str(record.build), record.url, sha256)
