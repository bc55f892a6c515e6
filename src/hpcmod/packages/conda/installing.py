"""Install the conda packages of a plan into the directory of a new state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.facts import Package
from hpcmod.modules import read_packages_in
from hpcmod.packages.conda.image import read_conda_image
from hpcmod.packages.conda.linking import Prefix, link_conda, link_libraries
from hpcmod.packages.conda.solving import check_no_python, fetch_conda, solve_conda
from hpcmod.packages.values.compare import check_unchanged
from hpcmod.packages.values.conda import CondaPart, with_times
from hpcmod.packages.values.plan import StatePlan
from hpcmod.packages.values.requirement import normalize_package

_NO_PYTHON = (
    "Use pip: hpcmod add NAME PACKAGE; or make an image with conda's Python: hpcmod bake IMAGE --conda FILE -o OUT.sif"
)


def install_conda(plan: StatePlan, venv: Path, scratch: Path, now: str, *, cuda: str = "") -> StatePlan:
    """Install the conda packages of a plan into a virtual environment of the image's Python.

    Returns the plan with what was installed, and with constraints that keep pip from replacing it.

    `scratch`: Directory for temporary files, on the same file system.
    `cuda`: As for `solve_conda`.

    Raises HpcmodError if they do not fit the image, cannot be downloaded, or are not what the channel or lock file
    says.
    """
    image = read_conda_image(plan.target.sif, plan.target.python)
    module = plan.target.module
    cure = f"resolve all of your packages again: hpcmod rebase {module.partition('/')[0]}"
    chosen = solve_conda(plan.conda, image, scratch, module=module, cure=cure, cuda=cuda)
    check_no_python(chosen, plan.conda, module=module, cure=_NO_PYTHON)
    archives = fetch_conda(chosen, scratch / "archives")
    before = plan.parent.conda if plan.parent else CondaPart()
    check_unchanged(before.packages, [archive.package for archive in archives], "channel")
    prefix = Prefix(venv, plan.target.venv, plan.target.python.version)
    packages = link_conda(archives, prefix, scratch)
    if packages:
        link_libraries(image.libraries, prefix)
    python_packages = read_packages_in(venv / prefix.site_packages)
    check_not_replaced(python_packages, plan)
    part = replace(plan.conda, packages=with_times(packages, before, now), exact=False)
    pins = tuple(f"{package.name}=={package.version}" for package in python_packages)
    return replace(plan, conda=part, constraints=(*plan.constraints, *pins))


def check_not_replaced(installed: tuple[Package, ...], plan: StatePlan) -> None:
    """Check that conda packages replace no Python package of the image, except those that may be replaced.

    Raises BadInputError if one does: conda does not know the packages that pip has installed in the image.
    """
    kept = [package for package in installed if normalize_package(package.name) not in plan.allowed]
    bad = [(package, inside.version) for package in kept if (inside := plan.target.find(package.name))]
    if bad:
        name = sh_word(plan.target.place.name)
        listed = ", ".join(f"{package.name} {package.version} (the image has {inside})" for package, inside in bad)
        options = " ".join(f"--allow-replace {normalize_package(package.name)}" for package, _ in bad)
        raise BadInputError(
            f"conda would install packages that {plan.target.module} already has: {listed}",
            f"Use pip, which keeps them: hpcmod add {name} PACKAGE. To replace what the image has, which may break "
            f"packages built for it: {options}",
        )
