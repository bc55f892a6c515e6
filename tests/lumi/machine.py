"""The environment of the scripts: a stand-in image, installed LUMI's way and by hpcmod, and virtual Slurm nodes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.images.sif.reader import read_sif, squashfs_partition
from tests import corpus
from tests.lumi import reference
from tests.stack import CHECKOUT, Cluster, Done, EasyBuild, Stack
from tests.wheels import make_wheel

SCRIPTS = CHECKOUT / "tests" / "lumi" / "scripts"

MODULES: Mapping[str, reference.Generation] = {
    "PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209": reference.OF_2023,
    "PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity": reference.OF_2024,
    "PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827": reference.OF_2025,
    "TensorFlow/2.16.1-rocm-6.2.0-singularity": reference.OF_TENSORFLOW,
    "rocm/6.2.2-singularity": reference.OF_ROCM,
}

ALONE = ("no-own-copy", "pip-in-shell", "squashfs-round", "squashfs-status")
"""Scripts that change the installation of their module."""

SITE = """
name = "virtual"
extends = "lumi"
[images]
central = ["{central}"]
[binds]
required = [{required}]
optional = []
[binds.when]
"rocm<6.2.4" = ["{jansson}:/usr/lib64/libjansson.so.4"]
"""

EASYCONFIG = """
easyblock = 'ContainerModule'
name = {name!r}
version = {version!r}
versionsuffix = {suffix!r}
homepage = 'https://www.lumi-supercomputer.eu/'
description = 'A stand-in for an image of LUMI'
toolchain = SYSTEM
sources = ['stand-in.sif']
checksums = [None]
{more}moduleclass = 'ai'
"""

RANKS = """
import os
names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "ROCR_VISIBLE_DEVICES")
names += ("NCCL_SOCKET_IFNAME", "NCCL_NET_GDR_LEVEL", "NCCL_DEBUG")
print(*(os.environ.get(name, "-") for name in names), "cache" if "MIOPEN_USER_DB_PATH" in os.environ else "no cache")
"""


@dataclass(frozen=True)
class Side:
    """Installed modules, and where scripts run."""

    cluster: Cluster
    modules: Path
    top: Path
    python: str
    """Major and minor version of the image's Python."""

    def submit(self, script: Path) -> str:
        """Submit a script from its own directory, with a home in which `pip install --user` put a package."""
        run = self.top / "runs" / script.stem
        site = run / f"home/.local/lib/python{self.python}/site-packages"
        for directory in (run / "src", run / "tmp", site, run / "caches"):
            directory.mkdir(parents=True)
        (run / "src/mymodule.py").write_text("name = 'my module'\nif __name__ == '__main__': print('as a program')\n")
        (site / "athome.py").write_text("version = '1.0'\n")
        (run / "ranks.py").write_text(RANKS)
        env = {
            "BASH_ENV": str(self.cluster.stack.lmod_init),
            "MODULEPATH": str(self.modules),
            "HOME": str(run / "home"),
            "TMPDIR": str(run / "tmp"),
            "HPCMOD_CACHE_ROOT": str(run / "caches"),
            "APPTAINER_QUIET": "1",
            "RANKS": str(run / "ranks.py"),
            "WHEELS": str(self.top / "wheels"),
        }
        options = ["--parsable", f"--output={run}/out", f"--error={run}/err", "--open-mode=truncate"]
        done = self.cluster("sbatch", *options, script, cwd=run, timeout=120, **env)
        if done.returncode:
            raise RuntimeError(f"{script.name}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def result(self, script: Path, number: str) -> Result:
        """Return the output of a job that has ended, without paths of the installation or the run and without
        chatter.
        """
        run = self.top / "runs" / script.stem
        shown = self.cluster("scontrol", "show", "job", number).stdout
        code = re.search(r"ExitCode=(\d+:\d+)", shown)
        text = (run / "out").read_text() if (run / "out").exists() else ""
        for place, name in ((run, "RUN"), (self.modules.parents[1], "PREFIX"), (self.top, "TOP")):
            text = text.replace(str(place), name)
        kept = [line for line in text.splitlines() if not _CHATTER.search(line)]
        error = (run / "err").read_text() if (run / "err").exists() else ""
        return Result("\n".join(kept), code[1] if code else shown, error)


_CHATTER = re.compile(r"^pid \d+'s current affinity mask: |^fake rocm-smi$")
"""Lines that LUMI's conda-python-distributed prints and ours does not."""


@dataclass(frozen=True)
class Result:
    """Result of a script."""

    output: str
    status: str
    errors: str

    @property
    def compared(self) -> tuple[str, str]:
        """Return what must be the same on both sides."""
        return self.output, self.status


def make_image(stack: Stack, directory: Path) -> Path:
    """Make the stand-in image: a conda layout with a real Python, and fakes of conda, rocm-smi and a library."""
    root, sif = directory / "root", directory / "stand-in.sif"
    partition = squashfs_partition(read_sif(stack.tiny_sif))
    unpack = ["unsquashfs", "-quiet", "-no-progress", "-offset", str(partition.offset), "-dest", str(root)]
    subprocess.run([*unpack, str(stack.tiny_sif)], check=True, capture_output=True)
    library = next(path for path in root.rglob("libm.so.6"))
    (root / "opt/rocm-5.6.1/lib").mkdir(parents=True)
    shutil.copy(library, root / "opt/rocm-5.6.1/lib/libpreload-me.so")
    fakes = {
        "opt/miniconda3/bin/conda": "echo 'conda of the image, a fake'",
        "opt/miniconda3/condabin/conda": "exec /opt/miniconda3/bin/conda",
        "usr/bin/rocm-smi": "echo 'fake rocm-smi'",
    }
    for name, text in fakes.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    body = corpus.pack(root, directory / "body", "-noI", "-noD", "-noF", "-noX").read_bytes()
    shutil.rmtree(root)
    (directory / "body").unlink()
    return corpus.make_sif(sif, body)


def make_sides(cluster: Cluster, top: Path) -> tuple[Side, Side]:
    """Install all modules LUMI's way and by hpcmod; return both."""
    stack = cluster.stack
    for name in ("machine/slurmd", "machine/cray", "central"):
        (top / name).mkdir(parents=True)
    for name in ("libcxi.so.1", "libjansson.so.4"):
        (top / "machine" / name).write_text(f"a stand-in for {name}\n")
    binds = [
        f"{top}/machine/slurmd:/var/spool/slurmd",
        f"{top}/machine/cray:/opt/cray",
        f"{top}/machine/libcxi.so.1:/usr/lib64/libcxi.so.1",
    ]
    jansson = f"{top}/machine/libjansson.so.4"
    image = make_image(stack, top / "central")
    make_wheel(top / "wheels", "einops", "0.8.1")
    make_wheel(top / "wheels", "needy", "1.0", requires=["einops"])
    python = _python_of(stack, image)
    for module, generation in MODULES.items():
        here = [*binds, f"{jansson}:/usr/lib64/libjansson.so.4"]
        reference.install(top / "lumi", module, generation, image, here, stack.apptainer)
    eb = EasyBuild(stack, top / "ours", top / "central")
    site = top / "site.toml"
    required = ", ".join(f'"{bind}"' for bind in binds)
    site.write_text(SITE.format(central=image.parent, required=required, jansson=jansson))
    (top / "ours/easyconfigs").mkdir(parents=True)
    done = eb(*(_write_easyconfig(top / "ours/easyconfigs", module) for module in MODULES), HPCMOD_SITE=str(site))
    if done.returncode:
        raise RuntimeError(done.stdout)
    sides = (
        Side(cluster, top / "lumi/modules/all", top / "lumi", python),
        Side(cluster, eb.modules, top / "ours", python),
    )
    for side in sides:
        (side.top / "wheels").symlink_to(top / "wheels")
        for root in (side.modules.parents[1] / "software/PyTorch").iterdir():
            for packages in (root / "user-software/venv/pytorch/lib").glob("python3*/site-packages"):
                _add_package(packages)
    return sides


def _add_package(packages: Path) -> None:
    """Write a package as pip does, for scripts that expect one in the virtual environment."""
    (packages / "einops.py").write_text("version = '0.8.1'\n")
    info = packages / "einops-0.8.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: einops\nVersion: 0.8.1\n")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("einops.py,,\n")


def _python_of(stack: Stack, image: Path) -> str:
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    inside = f'$WITH_CONDA; python -c "{code}"'
    argv = [str(stack.apptainer), "exec", str(image), "bash", "-c", inside]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def _write_easyconfig(directory: Path, module: str) -> Path:
    name, _, full = module.partition("/")
    version, dash, rest = full.partition("-")
    suffix = dash + rest
    more = ""
    if "start-shell" not in MODULES[module].bin or "python" not in MODULES[module].bin:
        more += "wrapped_commands = []\n"
    preload = dict(MODULES[module].variables).get("SINGULARITYENV_LD_PRELOAD")
    if preload:
        more += f"environment = {{'LD_PRELOAD': {preload!r}}}\n"
    path = directory / f"{name}-{full}.eb"
    path.write_text(EASYCONFIG.format(name=name, version=version, suffix=suffix, more=more))
    return path


def run_scripts(sides: Iterable[Side], scripts: list[Path], *, together: int = 4) -> dict[str, list[Result]]:
    """Run scripts on each side; return the results of each script, in the order of the sides."""
    results: dict[str, list[Result]] = {}
    together_first = [script for script in scripts if script.stem not in ALONE]
    groups = [together_first[i : i + together] for i in range(0, len(together_first), together)]
    groups += [[script] for script in scripts if script.stem in ALONE]
    for side in sides:
        for group in groups:
            numbers = [side.submit(script) for script in group]
            _wait(side.cluster, numbers)
            for script, number in zip(group, numbers):
                results.setdefault(script.stem, []).append(side.result(script, number))
    return results


def _wait(cluster: Cluster, numbers: list[str]) -> Done:
    loop = f"while squeue -h -j {','.join(numbers)} 2>/dev/null | grep -q .; do sleep 0.2; done"
    return cluster("bash", "-c", loop, timeout=float(os.environ.get("HPCMOD_LUMI_TIMEOUT", "300")))
