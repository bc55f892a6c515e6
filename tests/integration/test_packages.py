"""`info` reads the same packages from a SIF as `pip list` finds in a container, for every layout."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.values.facts import comparable_name
from tests import corpus
from tests.integration.conftest import unpack
from tests.stack import Stack, run

pytestmark = pytest.mark.stack

PIP = "exec python3 -I -m pip list --format=json --disable-pip-version-check"
"""What a user would type in a container; isolated from the home directory, which is not part of the image."""


def pip_list(stack: Stack, sif: Path, home: Path, *, pip: str = PIP) -> dict[str, str]:
    """Return what pip finds in an image: versions by normalized name."""
    argv = [
        str(stack.apptainer),
        "-s",
        "exec",
        "--cleanenv",
        "--no-home",
        str(sif),
        "bash",
        "-c",
        f"eval $WITH_CONDA; {pip}",
    ]
    done = run(argv, stack.environment(home))
    assert done.returncode == 0, done.stderr
    return {comparable_name(one["name"]): one["version"] for one in json.loads(done.stdout)}


def read_list(stack: Stack, sif: Path, home: Path) -> dict[str, str]:
    """Return what `hpcmod info` finds in an image: versions by normalized name."""
    argv = [str(stack.python.parent / "hpcmod"), "info", "--json", str(sif)]
    done = run(argv, stack.environment(home))
    assert done.returncode == 0, done.stderr
    return {comparable_name(one["name"]): one["version"] for one in json.loads(done.stdout)["packages"]}


class Workshop:
    """Builds images from the root file system of the tiny image."""

    def __init__(self, stack: Stack, tiny_sif: Path, place: Path) -> None:
        self.stack = stack
        self.place = place
        self.root = unpack(tiny_sif, place / "root")
        self.env = self.root / ".singularity.d/env/91-conda.sh"
        self.conda = self.root / "opt/miniconda3/envs/pytorch"

    def pack(self) -> Path:
        body = corpus.pack(self.root, self.place / "body", "-noI", "-noD", "-noF", "-noX")
        return corpus.make_sif(self.place / "made.sif", body.read_bytes())

    def in_root(self, line: str) -> None:
        """Run a line of bash in the root file system, mounted writable, with the wheels at /mnt."""
        argv = [
            str(self.stack.apptainer),
            "-s",
            "exec",
            "--cleanenv",
            "--no-home",
            "--writable",
            "-B",
            f"{self.stack.wheels}:/mnt",
        ]
        done = run(
            [*argv, str(self.root), "bash", "-c", f"eval $WITH_CONDA; {line}"], self.stack.environment(self.place)
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def workshop(stack: Stack, tiny_sif: Path, tmp_path: Path) -> Workshop:
    return Workshop(stack, tiny_sif, tmp_path)


INSTALL = "-m pip install -q --no-index --no-compile --disable-pip-version-check --find-links /mnt"


def test_the_torch_image_with_the_layout_of_conda(stack: Stack, torch_sif: Path, tmp_path: Path) -> None:
    found = read_list(stack, torch_sif, tmp_path)
    assert found == pip_list(stack, torch_sif, tmp_path)
    assert {"torch", "numpy", "pip"} <= set(found)


def test_a_virtual_environment_with_vendored_packages(workshop: Workshop) -> None:
    workshop.in_root(f"python3 -m venv /opt/venv && /opt/venv/bin/python {INSTALL} setuptools jinja2 filelock")
    workshop.env.write_text("export PATH=/opt/venv/bin:$PATH\n")
    site = next(workshop.root.glob("opt/venv/lib/python3*/site-packages"))
    write_dist(site / "setuptools/_vendor", "brought-along", "1.0")
    write_dist(site / "jinja2/_vendor", "filelock", "0.1", kind="egg-info")
    sif = workshop.pack()
    found = read_list(workshop.stack, sif, workshop.place)
    assert found == pip_list(workshop.stack, sif, workshop.place)
    assert set(found) == {"pip", "setuptools", "jinja2", "markupsafe", "filelock"}


def test_a_virtual_environment_on_top_of_another_pythons_packages(workshop: Workshop) -> None:
    workshop.in_root("python3 -m venv --system-site-packages --without-pip /opt/venv")
    site = next(workshop.root.glob("opt/venv/lib/python3*/site-packages"))
    write_dist(site, "click", "99.0")  # shadows the one in the lower environment
    workshop.env.write_text('export VIRTUAL_ENV="/opt/venv"\nexport PATH="/opt/venv/bin:$PATH"\n')
    sif = workshop.pack()
    found = read_list(workshop.stack, sif, workshop.place)
    assert found == pip_list(workshop.stack, sif, workshop.place)
    assert found["click"] == "99.0" and "packaging" in found


def write_dist(site: Path, name: str, version: str, *, kind: str = "dist-info", folder: str | None = None) -> None:
    """Write a package's metadata in the format of pip, setuptools, Debian or distutils."""
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: none\n\nA text\nName: other\n"
    place = site / (folder or f"{name}-{version}.{kind}")
    if kind == "file":
        (site / f"{name}-{version}.egg-info").write_text(text)
        return
    place.mkdir(parents=True)
    (place / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(text)


def test_debians_python_with_packages_of_all_ages(workshop: Workshop) -> None:
    system = Path("/usr/bin/python3").resolve()
    if not Path(f"/usr/lib/{system.name}/EXTERNALLY-MANAGED").exists():
        pytest.skip("the Python of this machine is not Debian's")
    shutil.rmtree(workshop.conda.parents[1])
    workshop.env.unlink()
    install_system_python(workshop.root, system)
    site = workshop.root / "usr/lib/python3/dist-packages"
    write_dist(site, "PyYAML", "6.0")
    write_dist(site, "lazr.uri", "1.0.6", kind="egg-info")
    write_dist(site, "cryptography", "38.0.4", kind="egg-info", folder="cryptography.egg-info")
    write_dist(site, "dbus_python", "1.3.2", kind="file")
    write_dist(site, "olefile", "0.46", kind="egg-info", folder="olefile-0.46.egg-info")
    write_dist(site, "hidden", "1.0")
    local = workshop.root / f"usr/local/lib/{system.name}/dist-packages"
    write_dist(local, "hidden", "2.0rc1")
    write_dist(local, "Torch.Vision", "0.22.1+rocm6.2.4", folder="torch_vision-0.22.1+rocm6.2.4.dist-info")
    sif = workshop.pack()
    wheel = next(Path("/usr/share/python-wheels").glob("pip-*.whl")).name
    pip = PIP.replace("-I -m pip", f"/usr/share/python-wheels/{wheel}/pip")
    found = read_list(workshop.stack, sif, workshop.place)
    assert found == pip_list(workshop.stack, sif, workshop.place, pip=pip)
    assert found["hidden"] == "2.0rc1" and found["torch-vision"] == "0.22.1+rocm6.2.4"
    assert len(found) == 7


def install_system_python(root: Path, system: Path) -> None:
    """Install Debian's Python in its usual paths, without its packages, together with the libraries it needs."""
    for folder in ("usr/bin", "usr/lib/python3", "usr/share/python-wheels"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy2(system, root / "usr/bin" / system.name)
    (root / "usr/bin/python3").symlink_to(system.name)
    ignored = shutil.ignore_patterns("test", "config-*", "__pycache__", "dist-packages", "lib-dynload/_test*")
    shutil.copytree(f"/usr/lib/{system.name}", root / "usr/lib" / system.name, ignore=ignored, symlinks=False)
    for wheel in Path("/usr/share/python-wheels").glob("pip-*.whl"):
        shutil.copy2(wheel, root / "usr/share/python-wheels")
    for library in libraries_of(system, *Path(f"/usr/lib/{system.name}/lib-dynload").glob("*.so")):
        place = root / str(library).lstrip("/")
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(library.resolve(), place)


def libraries_of(*programs: Path) -> set[Path]:
    """Return the shared libraries that programs need."""
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    words = [line.split("=>")[-1].split()[0] for line in done.stdout.splitlines() if " (0x" in line]
    return {Path(word) for word in words if word.startswith("/") and Path(word).exists()}
