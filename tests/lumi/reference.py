"""Reference installations: modules and scripts with the same behavior as those of LUMI's container easyconfigs.

Based on what is known of LUMI-EasyBuild-containers (commit af6fb1c) and of `create_container_vars` in the
SitePackage.lua of LUMI-SoftwareStack (commit 02f17317); no text is copied. Differences: the two pauses of two seconds
in conda-python-distributed are left out, and LUMI's binds point to directories of the test.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

WRAPPED = ("python", "python3", "pip", "pip3")
"""The wrapped commands, of the ten in 2025, that the stand-in image has."""


@dataclass(frozen=True)
class Generation:
    """Features of the easyconfigs of one period."""

    scripts: tuple[str, ...]
    bin: tuple[str, ...] = ()
    """Commands outside the container."""
    path: tuple[str, ...] = ()
    """Directories prepended to the container's PATH."""
    venv: bool = False
    jansson: bool = True
    """Whether to bind the host's libjansson."""
    variables: tuple[tuple[str, str], ...] = ()
    """Container variables, and others set on the host."""
    root: bool = True
    """Whether to set CONTAINERROOT."""


_RUN = ("conda-python-simple", "conda-python-distributed", "get-master")
_VENV = "/user-software/venv/pytorch"
_CONDA = "/opt/miniconda3"

OF_2023 = Generation(_RUN, path=("/runscripts",), root=False)
OF_2024 = Generation(
    (*_RUN, "init-conda-venv"),
    bin=("start-shell", "make-squashfs", "unmake-squashfs"),
    path=("/runscripts", f"{_VENV}/bin", f"{_CONDA}/envs/pytorch/bin", f"{_CONDA}/condabin"),
    venv=True,
    variables=(
        ("SINGULARITYENV_WITH_VENV", f"source {_VENV}/bin/activate"),
        ("SINGULARITYENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv"),
        ("SINGULARITYENV_CONDA_DEFAULT_ENV", "pytorch"),
        ("SINGULARITYENV_CONDA_EXE", f"{_CONDA}/bin/conda"),
        ("SINGULARITYENV_CONDA_PREFIX", f"{_CONDA}/envs/pytorch"),
        ("SINGULARITYENV_VIRTUAL_ENV", _VENV),
        ("SINGULARITYENV_LD_PRELOAD", "/opt/rocm-5.6.1/lib/libpreload-me.so"),
    ),
)
OF_2025 = Generation(
    (*_RUN, "init-conda-venv", "list-packages"),
    bin=("start-shell", "make-squashfs", "unmake-squashfs", "list-packages", *WRAPPED),
    # Images of 2025 set the variables of the Python environment themselves; the stand-in does not.
    path=("/runscripts", f"{_VENV}/bin", f"{_CONDA}/envs/pytorch/bin"),
    venv=True,
    jansson=False,
    variables=(
        ("SINGULARITYENV_WITH_VENV", "true"),
        ("SINGULARITYENV_WITH_CONDA_VENV", "true"),
        ("SINGULARITYENV_CONDA_DEFAULT_ENV", "pytorch"),
        ("SINGULARITYENV_CONDA_PREFIX", f"{_CONDA}/envs/pytorch"),
        ("SINGULARITYENV_VIRTUAL_ENV", _VENV),
        ("NCCL_SOCKET_IFNAME", "hsn"),
        ("NCCL_NET_GDR_LEVEL", "3"),
    ),
)
OF_TENSORFLOW = Generation(("conda-python-simple", "python-conda-simple"), root=False)
OF_ROCM = Generation((), root=False)


def install(top: Path, module: str, generation: Generation, sif: Path, binds: list[str], runtime: Path) -> None:
    """Install an image with modulefile and scripts below a directory, as EasyBuild does with LUMI's easyconfigs."""
    name, _, version = module.partition("/")
    root = top / "software" / module
    (root / "runscripts").mkdir(parents=True)
    (root / sif.name).symlink_to(sif)
    for script in generation.scripts:
        # In newer versions the module's variables activate the environment.
        activate = "" if generation.venv else "$WITH_CONDA\n"
        _write(root / "runscripts" / script, _IN_CONTAINER[script].format(venv=_VENV, activate=activate))
    for command in generation.bin:
        text = _OUTSIDE.get(command, _WRAPPER).format(root=root, name=command, sif=f"$SIF{name.upper()}")
        _write(root / "bin" / command, text)
    shared = [one for one in binds if generation.jansson or "libjansson" not in one]
    if generation.scripts:
        shared.append(f"{root}/runscripts:/runscripts")
    path = top / "modules/all" / f"{module}.lua"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_make_modulefile(name, version, root, sif, ",".join(shared), generation))
    if generation.venv:
        _make_venv(root, sif, runtime)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _make_venv(root: Path, sif: Path, runtime: Path) -> None:
    (root / "user-software/venv").mkdir(parents=True)
    bind = f"{root}/user-software:/user-software"
    create = f". {_CONDA}/bin/activate pytorch; cd /user-software/venv; python -m venv --system-site-packages pytorch"
    argv = [str(runtime), "exec", "--bind", bind, str(sif), "bash", "-c", create]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"no virtual environment:\n{done.stdout}{done.stderr}")
    for packages in (root / "user-software/venv/pytorch/lib").glob("python3*/site-packages"):
        place = f"{_CONDA}/envs/pytorch/lib/{packages.parent.name}/site-packages"
        (packages / "image.pth").write_text(f"import site; site.addsitedir({place!r})\n")  # see dev/lib/conda.sh


def _make_modulefile(name: str, version: str, root: Path, sif: Path, binds: str, generation: Generation) -> str:
    upper = name.upper()
    scripts = ["RUNSCRIPTS", f"RUNSCRIPTS{upper}"] if generation.scripts else []
    lines = [
        f'conflict("{name}")',
        f'local root = "{root}"',
        f'setenv("EBROOT{upper}", root)',
        f'setenv("EBVERSION{upper}", "{version.partition("-")[0]}")',
        *(['prepend_path("PATH", pathJoin(root, "bin"))'] if generation.bin else []),
        f'local own, central = pathJoin(root, "{sif.name}"), "{sif}"',
        "local image = isFile(own) and own or isFile(central) and central",
        'if mode() == "load" and not image then LmodError("Cannot locate the container file") end',
        f'if image then setenv("SIF", image) setenv("SIF{upper}", image) end',
        *(f'setenv("{variable}", pathJoin(root, "runscripts"))' for variable in scripts),
        f'local binds = "{binds}"',
        'local layer = pathJoin(root, "user-software")',
        'if isFile(layer .. ".squashfs") then binds = binds .. "," .. layer .. ".squashfs:/user-software:image-src=/"',
        'elseif isDir(layer) then binds = binds .. "," .. layer .. ":/user-software" end',
        'setenv("SINGULARITY_BIND", binds)',
        *(['setenv("CONTAINERROOT", root)'] if generation.root else []),
        *([f'setenv("SINGULARITYENV_PREPEND_PATH", "{":".join(generation.path)}")'] if generation.path else []),
        *(f'setenv("{variable}", "{value}")' for variable, value in generation.variables),
    ]
    return "\n".join(lines) + "\n"


_IN_CONTAINER = {
    "conda-python-simple": '#!/bin/bash -e\n{activate}python "$@"\n',
    "python-conda-simple": '#!/bin/bash -e\n{activate}python "$@"\n',
    "init-conda-venv": "#!/bin/bash\nsource {venv}/bin/activate\n",
    "list-packages": "#!/bin/bash\npip3 list\n",
    "get-master": """#!/usr/bin/env python3
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("nodes")
first = parser.parse_args().nodes.split(",")[0]
if "[" in first:
    name, numbers = first.split("[")[:2]
    first = name + numbers.split("-")[0]
print(first)
""",
    "conda-python-distributed": """#!/bin/bash -e
{activate}if [ $SLURM_LOCALID -eq 0 ] ; then rocm-smi ; fi
export MIOPEN_USER_DB_PATH="/tmp/$(id -un)-miopen-cache-$SLURM_NODEID"
export MIOPEN_CUSTOM_CACHE_DIR=$MIOPEN_USER_DB_PATH
if [ $SLURM_LOCALID -eq 0 ] ; then rm -rf $MIOPEN_USER_DB_PATH ; mkdir -p $MIOPEN_USER_DB_PATH ; fi
export NCCL_SOCKET_IFNAME=hsn NCCL_NET_GDR_LEVEL=3
export ROCR_VISIBLE_DEVICES=$SLURM_LOCALID
taskset -p $$
export MASTER_ADDR=$(/runscripts/get-master "$SLURM_NODELIST")
export MASTER_PORT=29500
export WORLD_SIZE=$SLURM_NPROCS
export RANK=$SLURM_PROCID
python "$@"
""",
}

_WRAPPER = """#!/bin/bash
if [ -d /.singularity.d ]; then echo "not in the container" >&2; exit 1; fi
if [ -z "{sif}" ]; then echo "load the module first" >&2; exit; fi
singularity exec {sif} {name} "$@"
"""

_OUTSIDE = {
    "start-shell": """#!/bin/bash
if [ -d /.singularity.d ]; then exec bash "$@"; fi
singularity exec {sif} bash "$@"
""",
    "make-squashfs": """#!/bin/bash
if [ -d /.singularity.d ]; then echo "not in the container"; exit 1; fi
cd {root}
if [ ! -d user-software ]; then echo "no user-software"; exit 2; fi
if [ -f user-software.squashfs ]; then echo "user-software.squashfs exists"; exit 3; fi
mksquashfs user-software user-software.squashfs -processors 1 -no-progress | grep -v Unrecognised
echo "created"
""",
    "unmake-squashfs": """#!/bin/bash
if [ -d /.singularity.d ]; then echo "not in the container"; exit 1; fi
cd {root}
if [ ! -f user-software.squashfs ]; then echo "no user-software.squashfs"; exit 2; fi
if [ -d user-software ]; then echo "user-software exists"; exit 3; fi
unsquashfs -d user-software user-software.squashfs
""",
}
