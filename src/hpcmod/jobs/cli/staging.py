"""Options of `hpcmod job` and `hpcmod launch` that copy the image to the nodes first."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hpcmod.core.cli.output import tell
from hpcmod.core.errors import NotFoundError
from hpcmod.core.fs.mounts import find_file_system
from hpcmod.core.process import call
from hpcmod.jobs.values.allocation import read_place
from hpcmod.jobs.values.layout import make_layout
from hpcmod.jobs.values.request import JobRequest
from hpcmod.jobs.values.staging import PlaceFacts, StagingFacts, decide_staging, find_places
from hpcmod.machine.values.site import STAGE_PLACES, Site

_MEMORY_PART = 4
"""An image may take one part in this many of a job's memory."""


def with_staging(request: JobRequest, stage: str, site: Site, image: Path | None) -> JobRequest:
    """Return a request with the staging that was asked for; with `auto`, as estimates say.

    `stage`: One of STAGE_PLACES, auto or off.
    `image`: The image of the module; None if it is not known here.

    Raises BadInputError if the machine has no such storage on its nodes.
    """
    if stage == "off":
        return request
    places = [place.name for place in find_places(site, "" if stage == "auto" else stage)]
    if stage != "auto":
        return replace(request, staging=request.staging._replace(place=stage))
    places.sort(key=STAGE_PLACES.index)  # a disk first: files in memory take memory from the job
    decision = decide_staging(_find_facts(request, site, image, places))
    return replace(request, staging=request.staging._replace(place=decision.place, why=decision.lines))


def _find_facts(request: JobRequest, site: Site, image: Path | None, places: Sequence[str]) -> StagingFacts:
    layout = make_layout(request, site)
    memory = (layout.memory_gib or layout.node.memory_gib) << 30 or None
    free = {"ram": None if memory is None else memory // _MEMORY_PART}
    return StagingFacts(
        size=image.stat().st_size if image else None,
        file_system=find_file_system(image) if image else "",
        nodes=request.nodes,
        places=tuple(PlaceFacts(name, free.get(name)) for name in places),
    )


def stage_image(request: JobRequest, site: Site, image: Path) -> str:
    """Copy the image to the nodes of the current job, and let the module's variables name the copy; return its path.

    A copy that an earlier step of the job has left on this node is used again. If copying fails, the scripts say so,
    and the result is the image itself.

    Raises NotFoundError if no container module with run scripts is loaded.
    """
    directory = Path(os.path.expandvars(find_places(site, request.staging.place)[0].directory))
    copy = _find_copy(directory, read_place(os.environ).job, image)
    if copy:
        tell(f"using the copies in {copy.parent}")
    else:
        copy = _make_copies(directory, image)
    for name in [name for name, value in os.environ.items() if name.startswith("SIF") and value == str(image)]:
        os.environ[name] = str(copy)
    return str(copy)


def _find_copy(directory: Path, job: str, image: Path) -> Path | None:
    """Return a finished copy of an image on this node; None if there is none, or the image is itself a copy."""
    pattern = f"hpcmod-{os.getuid()}-{job}-*/{image.name.translate(_NO_PATTERN)}"
    for copy in (image, *sorted(directory.glob(pattern))):
        ours = copy.match(f"hpcmod-{os.getuid()}-{job}-*/*") and {_owner(copy), _owner(copy.parent)} == {os.getuid()}
        if ours and copy.stat().st_size == image.stat().st_size:
            return copy
    return None


def _owner(path: Path) -> int:
    return path.lstat().st_uid


_NO_PATTERN = str.maketrans({sign: f"[{sign}]" for sign in "*?["})


def _make_copies(directory: Path, image: Path) -> Path:
    script = Path(os.environ.get("RUNSCRIPTS", "")) / "stage-image"
    if not script.is_absolute() or not script.is_file():
        raise NotFoundError("RUNSCRIPTS is not set: no container module is loaded", "module load NAME/VERSION")
    code = 'staged=$("$1" "$2"); SIF=$3; eval "$staged"; printf %s "$SIF"'  # the script quotes as bash does
    with tempfile.TemporaryFile("w+", errors="surrogateescape") as output:
        status = call(["bash", "-c", code, "bash", str(script), str(directory), str(image)], stdout=output.fileno())
        output.seek(0)
        path = output.read()
    return Path(path) if status == 0 and path else image
