"""Build an image from its plan: an engine builds it, hpcmod converts it to a SIF, and only the SIF is kept.

A killed build leaves one hidden directory, which the next build of the same file removes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcmod import __version__
from hpcmod.building.base_image import verify_bases
from hpcmod.building.context import write_context
from hpcmod.building.engines.engine import BuildSource
from hpcmod.building.engines.probe import Engine, EngineTrial, choose_engine, find_engines
from hpcmod.building.engines.workspace import ELSEWHERE, Workspace, open_workspace
from hpcmod.building.values.build_plan import BuildPlan
from hpcmod.core.clock import now_text
from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError, explain_os_error
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.copying import copy_file
from hpcmod.core.fs.replacing import Scratch, scratch
from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.lock import hold_file
from hpcmod.core.log import Logger
from hpcmod.core.progress import Progress
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import OCI_KINDS, ImageReference
from hpcmod.core.values.trust import ANYTHING, TrustPolicy
from hpcmod.images import Access, ConvertOptions, Sif, convert_image, read_layout

_ANYONE = Access()

_LOG = Logger(__name__)

FINGERPRINT = "org.hpcmod.fingerprint"
"""Label with a hash of everything that determines the content of an image."""

_OTHER_PATH = "choose another path for the SIF"
_UNPACKED, _MOST_RATIO = 2, 8
"""Bounds of compression ratios: a layer unpacks to at least twice its size; a SIF is never 8 times smaller."""


@dataclass(frozen=True)
class BuildOptions:
    """Options for building images on this machine."""

    environ: Mapping[str, str]
    """Environment of child processes; HPCMOD_BUILD_DIR is for intermediate files (default: beside the SIF)."""
    engine: str | Engine | None = None
    """Engine or its name; None for the first that works."""
    conversion: ConvertOptions = field(default_factory=ConvertOptions)
    policy: TrustPolicy = ANYTHING
    """Trust policy for the base image."""
    access: Access = _ANYONE
    """Registry access for fetching the base image's signature."""
    replace: bool = False
    """Replace an existing file that was built from something else."""
    tell: Callable[[str], None] = lambda _: None
    """Called with each message for the user: the engine, each step."""


@dataclass(frozen=True)
class Built:
    """A SIF that was built now or earlier."""

    path: Path
    sha256: str
    engine: str
    """Name of the engine; for an existing SIF, taken from its provenance file."""
    fingerprint: str
    reused: bool
    """Whether the SIF already existed."""


def build_image(plan: BuildPlan, out: Path, *, options: BuildOptions, progress: Progress | None = None) -> Built:
    """Build the image of a plan, unless it already exists.

    `out`: Path of the SIF, created only when complete. If several processes build it, one builds and the others wait.
    `progress`: Called with the bytes of the built image converted so far, and the total.

    Raises NotFoundError if the base image cannot be fetched; LackingError if no engine works here; NoSpaceError if the
    disk is too small; BadInputError if `out` exists and was built from something else; HpcmodError if a component
    fails: the message has its last lines; the full log is in a file beside the SIF.
    """
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    with hold_file(out, Sif(out).sidecar, tell=options.tell):
        there = find_built(out, plan.fingerprint, environ=options.environ)
        if there:
            _LOG.info("%s already exists, built from the same plan", out)
            return there
        _LOG.info("building %s from recipe %s, fingerprint %s", out, plan.recipe, plan.fingerprint)
        if out.exists() and not options.replace:
            raise BadInputError(
                f"{out}: already exists and was built from something else",
                "Choose another file, or replace it with --force.",
            )
        return _Build(plan, out, options, progress).run()


def prepare_build(plan: BuildPlan, out: Path, *, options: BuildOptions) -> BuildOptions:
    """Check that an image can be built here before downloading its sources, which may take an hour.

    Return the options with a working engine; unchanged if the image already exists.

    Raises NotFoundError, LackingError, NoSpaceError, BadInputError as `build_image` would.
    """
    out = out.absolute()
    if isinstance(options.engine, str):
        find_engines(options.engine, forms_of(plan))  # report a wrong name even if nothing has to be built
    out.parent.mkdir(parents=True, exist_ok=True)
    with hold_file(out, Sif(out).sidecar, tell=options.tell):
        if find_built(out, plan.fingerprint, environ=options.environ):
            return options
        return replace(options, engine=_Build(plan, out, options, None).prepare())


def find_built(out: Path, fingerprint: str, *, environ: Mapping[str, str]) -> Built | None:
    """Find a SIF that this user built from the same plan, without reading it in full."""
    if not out.is_file():
        return None
    known = Sif(out).provenance(environ)
    if known is None or known.size != out.stat().st_size:
        return None
    with suppress(HpcmodError):
        if Sif(out).labels().get(FINGERPRINT) == fingerprint:
            return Built(out, known.sha256, known.tool.rpartition(" by ")[2], fingerprint, reused=True)
    return None


class _Build:
    """The build of one image."""

    def __init__(self, plan: BuildPlan, out: Path, options: BuildOptions, progress: Progress | None) -> None:
        self._plan, self._out, self._options, self._progress = plan, out, options, progress
        self._base = ImageReference.parse(plan.base) if plan.base else None
        self._at = Path(options.environ.get("HPCMOD_BUILD_DIR") or out.parent).absolute()
        digest = hashlib.sha256(os.fsencode(out)).hexdigest()[:12]
        self._name = out.name if self._at == out.parent else f"{out.name}-{digest}"
        """Name of the workspace, unique in a directory where images of other directories may be built too."""
        self._log = out.with_name(f"{out.name}.build.log")

    def run(self) -> Built:
        """Build the image and move the SIF to its final path."""
        options = self._options
        engine = self.prepare()
        options.tell(f"building {self._plan.recipe} with {engine.name} ({engine.way})")
        try:
            with scratch(self._out) as made:
                with open_workspace(self._at, self._name, options.environ, tell=options.tell) as workspace:
                    self._make_sif(engine, workspace, made.path)
                return self._put_in_place(engine, made)
        except OSError as err:
            raise explain_os_error(err) from err

    def prepare(self) -> Engine:
        """Check that the image can be built here, and choose the engine unless it was given."""
        self._check_base()
        asked, environ = self._options.engine, self._options.environ
        if asked is None or isinstance(asked, str):
            return choose_engine(
                asked, EngineTrial(self._at, f"{self._name}.trial", environ), forms=forms_of(self._plan)
            )
        return asked

    def _check_base(self) -> None:
        """Check early that the base exists and is trusted, and that the image fits."""
        options = self._options
        verify_bases(self._plan, options.policy, access=options.access, environ=options.environ)
        unpacked = _unpacked_size(self._base, self._plan.architecture) if self._base else 0
        within = 2 * unpacked + sum(_size_below(Path(path)) for path, _ in self._plan.inputs)
        check_room(
            [
                Need(self._at, within, 1000, "the layers at least", ELSEWHERE),
                Need(self._out.parent, unpacked // _MOST_RATIO, 2, "the SIF at least", _OTHER_PATH),
            ]
        )

    def _make_sif(self, engine: Engine, workspace: Workspace, staged: Path) -> None:
        file = write_context(self._plan, workspace.context, form=engine.form)
        source = BuildSource(
            Path(self._plan.own_context or workspace.context), file, self._base, self._options.conversion
        )
        try:
            built = engine.build(workspace, source)
        except HpcmodError as err:
            raise self._with_log(err, workspace) from err
        if built.kind not in OCI_KINDS:
            copy_file(built.path, staged, method="share", progress=self._progress)
            return
        with read_layout(built, architecture=self._plan.architecture) as image:
            least = sum(layer.size for layer in image.layers) // _MOST_RATIO
            check_room([Need(self._out.parent, least, 2, "the SIF at least", _OTHER_PATH)])
            converted = convert_image(image, staged, options=self._options.conversion, progress=self._progress)
        for part in converted.left_out:
            self._options.tell(f"left out: {part}")

    def _with_log(self, err: HpcmodError, workspace: Workspace) -> HpcmodError:
        """Save the engine's output and add the log's path to the error."""
        with suppress(OSError):  # a full disk: the last lines are in the message
            shutil.copyfile(workspace.log, self._log)
            err.message += f"\nThe full log is in {self._log}"
            err.args = (err.message,)
        return err

    def _put_in_place(self, engine: Engine, made: Scratch) -> Built:
        """Check and label the SIF, write its provenance file, and move it to its final path."""
        plan, options = self._plan, self._options
        Sif(made.path).check(plan.architecture, shown=self._out)
        Sif(made.path).add_labels(dict(plan.labels))
        sha256 = file_sha256(made.path, self._progress)
        provenance = Provenance(
            reference=f"recipe:{plan.recipe}",
            digest="",
            sha256=sha256,
            size=made.path.stat().st_size,
            time=now_text(),
            tool=f"hpcmod {__version__} by {engine.name}",
        )
        Sif(made.beside / self._out.name).write_provenance(provenance, options.environ)
        made.put()
        self._log.unlink(missing_ok=True)
        return Built(self._out, sha256, engine.name, plan.fingerprint, reused=False)


def forms_of(plan: BuildPlan) -> Sequence[str]:
    """Return the forms that a plan can be built from: `Dockerfile`, `definition`."""
    if plan.own_form:
        return (plan.own_form,)
    is_oci = ImageReference.parse(plan.base).kind in OCI_KINDS
    return ("Dockerfile", "definition") if is_oci else ("definition",)


def _unpacked_size(base: ImageReference, architecture: str) -> int:
    """Return a lower bound of the bytes that a base's layers unpack to; 0 if unknown before it is fetched."""
    if not base.path:
        return 0
    if not Path(base.path).exists():
        raise NotFoundError(f"the base image {base.canonical}: {base.path} not found", "Choose another with --base.")
    if base.kind not in OCI_KINDS:
        return Path(base.path).stat().st_size * _UNPACKED
    with read_layout(base, architecture=architecture) as image:
        return sum(layer.size * (_UNPACKED if "+" in layer.media_type else 1) for layer in image.layers)


def _size_below(path: Path) -> int:
    return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())
