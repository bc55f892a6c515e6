"""Write recipes for Spack, of hpcmod and of what Spack lacks: spack.py SDIST DIRECTORY; needs pip, packaging.

The recipe takes the sdist from its place above the repository, by its checksum.
"""

import hashlib
import re
import sys
import tarfile
from pathlib import Path

from easyconfig import ask_pip
from packaging.requirements import Requirement

ADDED = {
    "easybuild-framework": "",
    "tree-sitter-bash": """
    depends_on("python@3.10:", type=("build", "link", "run"))
    depends_on("py-setuptools", type="build")
    depends_on("c", type="build")
""",
}
"""Projects that Spack lacks, with the lines of a recipe; without lines: Spack's recipe with a newer version."""

RECIPE = '''\
# Written by dev/release.
import os

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *

SDIST = os.path.realpath(os.path.join(os.path.dirname(__file__), *[".."] * 4, "{sdist}"))


class Hpcmod(PythonPackage):
    """{summary}."""

    license("{license}")

    version("{version}", sha256="{sha256}", url="file://" + SDIST)

    depends_on("python@{python}:", type=("build", "run"))
    depends_on("py-setuptools@64:", type="build")
{needs}
'''

ADDED_RECIPE = '''\
# Written by dev/release.
{imports}
from spack.package import *


class {name}({base}):
    """{project}, as hpcmod needs it."""

    pypi = "{project}/{file}"

    version("{version}", sha256="{sha256}")
{lines}'''


def range_of(need: Requirement) -> str:
    """Return the versions of a requirement as Spack writes them: `@4.9.4:5`, as `<6` without a dot."""
    bounds = {specifier.operator: specifier.version for specifier in need.specifier}
    below = str(int(bounds["<"]) - 1) if "<" in bounds else ""
    return f"@{bounds.get('>=', '')}:{below}"


def render_recipe(metadata: str, sdist: str, sha256: str) -> str:
    """Return the recipe of hpcmod, from the metadata of its sdist."""
    lines = metadata.partition("\n\n")[0].splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    needs = []
    for line in lines:
        need = Requirement(line.partition(": ")[2]) if line.startswith("Requires-Dist") else None
        if need and "extra" not in str(need.marker):
            older = re.fullmatch(r'python_version < "3\.(\d+)"', str(need.marker))
            when = f', when="^python@:3.{int(older[1]) - 1}"' if older else ""
            needs.append(f'    depends_on("py-{need.name}{range_of(need)}", type=("build", "run"){when})')
    return RECIPE.format(
        sdist=sdist,
        sha256=sha256,
        summary=fields["Summary"],
        license=fields.get("License-Expression", fields.get("License")),
        version=fields["Version"],
        python=fields["Requires-Python"].removeprefix(">="),
        needs="\n".join(needs),
    )


def render_added(project: str, file: str, sha256: str) -> str:
    """Return the recipe of a project, from its file on the package index."""
    name = "".join(word.title() for word in ("py", *project.split("-")))
    source, base = f"packages.py_{project.replace('-', '_')}.package", f"{name} as Base"
    if ADDED[project]:
        source, base = "build_systems.python", "PythonPackage"
    return ADDED_RECIPE.format(
        imports=f"from spack_repo.builtin.{source} import {base}\n",
        name=name,
        base=base.rpartition(" ")[2],
        project=project,
        file=file,
        version=file.rpartition("-")[2].removesuffix(".tar.gz"),
        sha256=sha256,
        lines=ADDED[project],
    )


def main() -> None:
    """Write the repository."""
    sdist, directory = map(Path, sys.argv[1:])
    with tarfile.open(sdist) as archive:
        (member,) = (file for file in archive if re.fullmatch("[^/]+/PKG-INFO", file.name))
        metadata = b"".join(archive.extractfile(member) or ()).decode()
    sha256 = hashlib.sha256(sdist.read_bytes()).hexdigest()
    recipes = {"hpcmod": render_recipe(metadata, sdist.name, sha256)}
    for project in ADDED:
        ((file, (_, sha256, _)),) = ask_pip("--no-deps", "--no-binary", project, project).items()
        recipes[f"py_{project.replace('-', '_')}"] = render_added(project, file, sha256)
    for name, text in recipes.items():
        path = directory / "packages" / name / "package.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (directory / "repo.yaml").write_text("repo:\n  namespace: hpcmod\n  api: v2.0\n")


if __name__ == "__main__":
    main()
