"""The install plan: one pure function decides everything that an installation creates, from image, site and spec."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hpcmod.core.values.facts import NO_ENTRY, ImageFacts, Package, PythonFacts, comparable_name
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import HOST_PYTHON, Site
from hpcmod.machine.values.tables import Binds
from hpcmod.modules.values.guard import make_guard
from hpcmod.modules.values.install_record import USER_SOFTWARE, OwnPackages
from hpcmod.modules.values.place import PACKED_OPTIONS, USER_LAYER_IN_CONTAINER, PackagePlace, make_tag
from hpcmod.modules.values.spec import COMMAND_NAME, Commands, InstallSpec
from hpcmod.modules.values.swap import make_library_path, swaps_libraries
from hpcmod.modules.values.versions import ChosenTunables, choose_tunables, find_versions

RUNSCRIPTS_IN_CONTAINER = "/runscripts"
COMMANDS_IN_CONTAINER = f"{RUNSCRIPTS_IN_CONTAINER}/bin"

WELL_KNOWN_COMMANDS = (
    "python", "python3", "pip", "pip3", "torchrun", "accelerate", "deepspeed", "ray", "huggingface-cli", "hf",
    "tensorboard", "jupyter", "ipython", "vllm",
)  # fmt: skip
"""Commands wrapped by default if the image has them: LUMI's (PyTorch 2.7.1), and those its users request."""


_PROFILERS = {"amd": ("rocprofv3", "rocprof"), "nvidia": ("nsys",)}
"""By GPU vendor, best first: AMD ends support for rocprof in 2026 (ROCm documentation, ROCprofiler)."""

START_SHELL: Commands = (("start-shell", ("bash",)),)
"""The command of each image with bash."""

_OF_BASH: Commands = (("list-packages", (f"{RUNSCRIPTS_IN_CONTAINER}/list-packages",)), *START_SHELL)

Defaults = tuple[tuple[tuple[str, ...], str], ...]
"""Names of one variable (for different runtimes), and its value."""


class ContainerSettings(NamedTuple):
    """What the run scripts of an installation know of its image."""

    guard: tuple[tuple[str, str], ...] = ()
    """Variables that keep the host's Python out of the container, by their names inside; see guard.py."""
    user_site: str = ""
    """Directory of the packages of the image's Python below ~/.local; empty without a Python in the image."""
    venv: str = ""
    """The virtual environment of the user's packages in the container; empty without a Python in the image."""
    variables: tuple[str, ...] = ()
    """Other variables that the module sets for the container, with their prefix, e.g. APPTAINERENV_VIRTUAL_ENV."""
    own_packages: PackagePlace | None = None
    """Where the user's own packages are looked for; None without a Python in the image."""
    commands: Commands = ()
    """Those of command_lines that programs in the container find in COMMANDS_IN_CONTAINER."""
    python_bin: str = ""
    """Directory added to the container's PATH instead of activating the image's Python; empty: activation is needed."""
    has_bash: bool = True
    """Whether the image has bash; without it, commands are started directly, not by run-in-env."""
    has_entry: bool = True
    """Whether the image has a run script, without which `singularity run` does nothing."""
    command_lines: Commands = START_SHELL
    """Commands in bin/ that are not the image's command of that name, each with the program and its first arguments."""


class RunscriptSettings(NamedTuple):
    """Values for rendering the run scripts of one installation."""

    module: str
    """Full name of the module, e.g. PyTorch/2.7.1-rocm-6.2.4-singularity; for messages."""
    sif_variable: str
    """Variable that contains the SIF's path outside the container, e.g. SIFPYTORCH."""
    root: str = ""
    """Directory of the installation."""
    site: Site = Site("")
    """The machine: its GPUs, nodes, network, caches, launchers and host commands."""
    binds: Binds = ()
    """The module's bind candidates, which wrappers resolve again on the node where they run. Each group results in at
    most one bind: its first candidate whose source exists on the node."""
    tunables: ChosenTunables = ChosenTunables()
    """Defaults (NCCL_*, FI_*, ...), those for one or several nodes too, which modulefiles cannot tell apart."""
    gpu_flags: tuple[tuple[str, str], ...] = ()
    """GPU flags by their names in the runtime's variables (`NV` of APPTAINER_NV), and a device of nodes with GPUs."""
    profilers: tuple[str, ...] = ("py-spy",)
    """Default profilers of --profile-rank: the first one in the image is used."""
    container: ContainerSettings = ContainerSettings()


@dataclass(frozen=True)
class UserLayer:
    """The user's own packages on top of the image: a host directory bound into the container."""

    directory: str
    """On the host; survives every rebuild."""
    squashfs: str
    """Image used instead of the directory if it exists."""
    venv: str
    """Path in the container of the virtual environment, e.g. /user-software/venv/pytorch."""
    python: PythonFacts
    """The Python that the virtual environment is based on."""


@dataclass(frozen=True)
class InstallPlan:
    """Everything one installation writes to disk and sets in the environment."""

    spec: InstallSpec
    image_mode: str
    """copy, link or central."""
    own_sif: str
    """Path of the installation's own SIF, whether or not one is created."""
    sif_places: tuple[str, ...]
    """Where the module searches for the SIF, in order."""
    own: tuple[tuple[str, str], ...]
    """Variables the module always sets, and restores at unload; excludes the SIF variables."""
    defaults: Defaults
    """Names and value: set under all names, but only if the user has set none of them."""
    container_path: tuple[str, ...]
    """Prepended to the container's PATH."""
    commands: tuple[str, ...]
    runscripts: RunscriptSettings
    user_layer: UserLayer | None
    packages: tuple[Package, ...]
    labels: tuple[tuple[str, str], ...] = field(default=())
    trial: tuple[str, ...] = ImageFacts.trial
    """Command line of the image that does nothing, to try whether it starts; empty: it has none."""
    notice_places: tuple[str, ...] = ()
    """Files with notices from the catalogues about the image; the module reads them when it loads."""

    @property
    def site(self) -> Site:
        """Return the machine."""
        return self.runscripts.site

    @property
    def binds(self) -> Binds:
        """Return the bind candidates."""
        return self.runscripts.binds

    @property
    def own_packages(self) -> PackagePlace | None:
        """Return where the module looks for the user's own packages; None without a Python, or if not known yet."""
        return self.runscripts.container.own_packages

    @property
    def described_packages(self) -> OwnPackages | None:
        """Return what `hpcmod add` needs to know, for the record; None if the image has no Python."""
        place, layer = self.own_packages, self.user_layer
        return OwnPackages(place.name, place.tag, layer.venv, layer.python) if place and layer else None

    @property
    def has_bash(self) -> bool:
        """Return whether the image has bash."""
        return self.runscripts.container.has_bash

    @property
    def runscripts_directory(self) -> str:
        """Return the host directory of the run scripts."""
        return posixpath.join(self.spec.root, "runscripts")

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Return the easyconfig's variables of the container for which a value on the host would be passed instead."""
        return tuple(pair for pair in self.spec.environment if pair[0] not in HOST_PYTHON)

    @property
    def has_python_commands(self) -> bool:
        """Return whether the module puts a Python on PATH: two such modules are loaded only if the user asks."""
        return any(re.fullmatch(r"python[\d.]*", name) for name in self.commands)

    @property
    def listed_packages(self) -> tuple[Package, ...]:
        """Return the packages that `module spider` finds: of many, only those that users look for.

        `avail` and `spider` process the lists of all modules, so with hundreds of packages each they take three times
        as long. Packages whose names would break Lmod's `name/version,...` syntax are left out.
        """
        usable = [p for p in self.packages if _LISTABLE.fullmatch(p.name) and _LISTABLE.fullmatch(p.version)]
        if len(usable) <= MOST_LISTED:
            return tuple(usable)
        known = [p for p in usable if comparable_name(p.name) in WELL_KNOWN_PACKAGES]
        known.sort(key=lambda p: WELL_KNOWN_PACKAGES.index(comparable_name(p.name)))
        return tuple(sorted(known[:MOST_LISTED], key=lambda p: p.name.lower()))


_LISTABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")

MOST_LISTED = 10
"""Maximum number of packages of a module that Lmod lists; with 200 modules, `avail` then takes 1.1 times as long."""

WELL_KNOWN_PACKAGES = (
    "torch", "torchvision", "torchaudio", "tensorflow", "jax", "flash-attn", "deepspeed", "vllm", "transformers",
    "mpi4py", "transformer-engine", "megatron-core", "xformers", "sglang", "accelerate", "lightning",
    "pytorch-lightning", "torch-geometric", "dgl", "horovod", "cupy", "ray", "dask", "cudf", "xarray", "h5py",
    "netcdf4", "openmm", "ase", "mdanalysis", "rdkit", "biopython", "pyscf", "qiskit", "scikit-learn", "pandas",
    "scipy", "numpy", "jupyterlab",
)  # fmt: skip
"""Packages that users look for in modules, in order of importance; comparable names."""


def make_plan(facts: ImageFacts | None, site: Site, spec: InstallSpec) -> InstallPlan:
    """Return the plan of an installation; facts are None if no image could be read."""
    layer = _make_user_layer(facts, spec)
    container = (
        *_make_layer_variables(facts, layer),
        *_make_conda_variables(facts),
        *_make_library_path(facts, site),
        *_make_container_variables(tuple(pair for pair in spec.environment if pair[0] in HOST_PYTHON)),
    )
    tunables = choose_tunables(site.tunables, find_versions(facts, spec))
    names = tuple(name for names, _ in container for name in names)
    passed = (*site.module.keep_env, *(name for name, _ in spec.environment))
    own = (name for names, _ in _make_container_variables(spec.environment) for name in names)
    has_bash = facts.has_bash if facts else True
    commands = tuple((name, words) for name, words in spec.commands or () if words != (name,))
    in_container = ContainerSettings(
        guard=tuple(pair for pair in make_guard(facts, without=passed) if f"APPTAINERENV_{pair[0]}" not in names),
        user_site=f"lib/python{layer.python.version}/site-packages" if layer else "",
        venv=layer.venv if layer else "",
        variables=(*names, *own),
        commands=commands if has_bash else (),
        python_bin=_python_bin(facts),
        has_bash=has_bash,
        has_entry=not facts or facts.entry != NO_ENTRY,
        command_lines=(*map(_without_itself, commands), *_OF_BASH) if has_bash else commands,
    )
    runscripts = RunscriptSettings(
        module=spec.module,
        sif_variable=f"SIF{spec.variable}",
        root=spec.root,
        site=site,
        binds=_make_binds(facts, site, spec, layer),
        tunables=tunables,
        gpu_flags=tuple(_GPU_FLAGS[flag] for flag in site.gpu.runtime_flags),
        profilers=_PROFILERS.get(site.gpu.vendor, ("py-spy",)),
        container=in_container,
    )
    return InstallPlan(
        spec=spec,
        image_mode=site.images.install_mode if spec.install_mode == "auto" else spec.install_mode,
        own_sif=posixpath.join(spec.root, spec.image),
        sif_places=_make_sif_places(site, spec),
        own=_make_own_variables(spec),
        defaults=(*container, *(((name,), value) for name, value in tunables.always)),
        container_path=_make_container_path(facts, layer, in_container),
        commands=_choose_commands(facts) if spec.commands is None else tuple(name for name, _ in spec.commands),
        runscripts=runscripts,
        user_layer=layer,
        packages=facts.packages if facts else (),
        labels=facts.labels if facts else (),
        trial=facts.trial if facts else ImageFacts.trial,
    )


def with_notices(plan: InstallPlan, directories: Iterable[str], sha256: str) -> InstallPlan:
    """Return a plan whose module checks these directories for notices: for every image, and for this digest."""
    names = ("all", sha256) if sha256 else ("all",)
    places = tuple(posixpath.join(directory, name) for directory in directories for name in names)
    return replace(plan, notice_places=places)


def with_own_packages(plan: InstallPlan, sha256: str) -> InstallPlan:
    """Return a plan whose module uses the user's own packages that fit the image with this digest."""
    if plan.user_layer is None or not sha256:
        return plan
    place = PackagePlace(plan.spec.module.rpartition("/")[0], make_tag(plan.user_layer.python.version, sha256))
    in_container = plan.runscripts.container._replace(own_packages=place)
    return replace(plan, runscripts=plan.runscripts._replace(container=in_container))


def _make_sif_places(site: Site, spec: InstallSpec) -> tuple[str, ...]:
    places = [posixpath.join(directory, spec.image) for directory in (spec.root, *site.images.central)]
    return tuple(dict.fromkeys([*places, *filter(None, [spec.found_at])]))


def _make_user_layer(facts: ImageFacts | None, spec: InstallSpec) -> UserLayer | None:
    if facts is None or facts.python is None:
        return None
    directory = posixpath.join(spec.root, USER_SOFTWARE)
    name = re.sub(r"[^a-z0-9._-]", "_", spec.name.lower())
    venv = f"{USER_LAYER_IN_CONTAINER}/venv/{name}"
    return UserLayer(directory, f"{directory}.squashfs", venv, facts.python)


def _make_binds(facts: ImageFacts | None, site: Site, spec: InstallSpec, layer: UserLayer | None) -> Binds:
    runscripts = Bind(posixpath.join(spec.root, "runscripts"), RUNSCRIPTS_IN_CONTAINER)
    machine = site.all_binds if swaps_libraries(facts, site) else site.binds.always
    versions = find_versions(facts, spec)
    some = (group for condition, binds in site.binds.when if condition.holds_for(versions) for group in binds)
    groups = [*machine, *some, *((bind,) for bind in (*spec.binds, runscripts))]
    if layer is None:
        return tuple(groups)
    packed = Bind(layer.squashfs, USER_LAYER_IN_CONTAINER, PACKED_OPTIONS)
    return (*groups, (packed, Bind(layer.directory, USER_LAYER_IN_CONTAINER, "ro" if spec.published else "")))


def _make_own_variables(spec: InstallSpec) -> tuple[tuple[str, str], ...]:
    runscripts = posixpath.join(spec.root, "runscripts")
    return (("RUNSCRIPTS", runscripts), (f"RUNSCRIPTS{spec.variable}", runscripts), ("CONTAINERROOT", spec.root))


def _make_container_path(
    facts: ImageFacts | None, layer: UserLayer | None, container: ContainerSettings
) -> tuple[str, ...]:
    """Return what comes first: a Python of the user's packages also before a command of that name."""
    layer_bin = f"{layer.venv}/bin" if layer else ""
    commands = COMMANDS_IN_CONTAINER if container.commands else ""
    conda = f"{facts.conda}/condabin" if facts and facts.conda else ""
    return tuple(filter(None, (RUNSCRIPTS_IN_CONTAINER, layer_bin, commands, container.python_bin, conda)))


def _python_bin(facts: ImageFacts | None) -> str:
    """Return the directory of the image's Python if putting it first on PATH is equivalent to activating it.

    Never a system directory: it would take precedence over what the image has put in front of it.
    """
    python = facts.python if facts else None
    if python is None or python.activation_scripts or python.prefix in ("/usr", "/usr/local"):
        return ""
    return f"{python.prefix}/bin"


def _make_conda_variables(facts: ImageFacts | None) -> Defaults:
    """Return the variables of an activated conda environment, so that `$WITH_CONDA` and programs find it active."""
    python = facts.python if facts else None
    words = dict(facts.environment).get("WITH_CONDA", "").split() if facts else []
    if python is None or not _python_bin(facts) or words[-1:] != [posixpath.basename(python.prefix)]:
        return ()
    conda = (("CONDA_EXE", f"{facts.conda}/bin/conda"),) if facts and facts.conda else ()
    return _make_container_variables((("CONDA_PREFIX", python.prefix), ("CONDA_DEFAULT_ENV", words[-1]), *conda))


def _make_layer_variables(facts: ImageFacts | None, layer: UserLayer | None) -> Defaults:
    """Return the variables of the user layer; scripts for LUMI start with `$WITH_CONDA`, `$WITH_VENV` or both."""
    if layer is None:
        return ()
    activate = f". {RUNSCRIPTS_IN_CONTAINER}/init-conda-venv"  # `source` would exclude sh
    of_image = dict(facts.environment).get("WITH_CONDA", "") if facts else ""
    conda = (("WITH_CONDA", f"{activate} --with {of_image}"),) if of_image else ()
    return _make_container_variables(
        (("VIRTUAL_ENV", layer.venv), *conda, ("WITH_VENV", activate), ("WITH_CONDA_VENV", activate))
    )


def _make_library_path(facts: ImageFacts | None, site: Site) -> Defaults:
    if not swaps_libraries(facts, site):
        return ()
    return _make_container_variables((("LD_LIBRARY_PATH", make_library_path(site.network.netstack.search_last)),))


def _make_container_variables(pairs: tuple[tuple[str, str], ...]) -> Defaults:
    """Return container variables under both runtimes' names; the user's value wins under either name."""
    return tuple(((f"SINGULARITYENV_{name}", f"APPTAINERENV_{name}"), value) for name, value in pairs)


def _without_itself(command: tuple[str, tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
    """Return how a wrapper starts a command: its program's name could find the command, which adds arguments again."""
    name, words = command
    return command if words[0].startswith("/") else (name, (f"{COMMANDS_IN_CONTAINER}/{name}",))


def _choose_commands(facts: ImageFacts | None) -> tuple[str, ...]:
    if facts is None:
        return ()
    known_commands = set(WELL_KNOWN_COMMANDS)
    if facts.python:
        known_commands |= {f"python{facts.python.version}", f"pip{facts.python.version}"}
    return tuple(name for name in facts.commands if name in known_commands and COMMAND_NAME.fullmatch(name))


_GPU_FLAGS = {
    "--nv": ("NV", "/dev/nvidiactl"),
    "--nvccli": ("NVCCLI", "/dev/nvidiactl"),
    "--rocm": ("ROCM", "/dev/kfd"),
}
"""As `RunscriptSettings.gpu_flags`; from Apptainer's and SingularityCE's action_flags.go, tried with 1.4.5."""
