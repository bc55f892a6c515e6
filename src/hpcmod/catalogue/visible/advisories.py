"""Read the advisories of the catalogues, and match them against an image, this host and an environment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.values.advisory_schema import parse_advisory
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Package
from hpcmod.modules import find_newest_path

_LIMIT = 1 << 20  # bytes of a file


def read_advisories(catalogues: Iterable[Catalogue]) -> Iterator[Advisory | BadInputError]:
    """Read every advisory, in order of the catalogues and file names; yield an error for each invalid one.

    Hidden files are skipped: editors create them next to the file that they edit.
    """
    for catalogue in catalogues:
        for path in sorted(catalogue.advisories.glob("[!.]*.toml")):
            try:
                text = catalogue.read_file(path, _LIMIT).decode()
                yield parse_advisory(text, str(path), path.name[: -len(".toml")])
            except FileNotFoundError:  # removed meanwhile
                continue
            except UnicodeDecodeError as err:
                yield BadInputError(f"advisory {path} is not valid UTF-8: {err}", "Save it as UTF-8.")
            except BadInputError as err:
                yield err


def matching_advisories(
    catalogues: Iterable[Catalogue],
    module: str,
    sha256: str,
    *,
    environ: Mapping[str, str],
    packages: Sequence[Package],
) -> tuple[Advisory, ...]:
    """Return the advisories that apply to an image on this host, in this environment, today; invalid ones are left out.

    `packages`: Python packages in the image.
    """
    now = time.time()
    advisories = (read for read in read_advisories(catalogues) if isinstance(read, Advisory))
    return tuple(
        advisory
        for advisory in advisories
        if advisory.concerns(module, sha256, packages) and advisory.holds_in(environ, find_newest_path, now=now)
    )
