"""Check that a container has a Python module, in its image or in the user's packages."""

from __future__ import annotations

from hpcmod.core.errors import LackingError
from hpcmod.core.process import run
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.text import away_from_here
from hpcmod.modules.installed import Installed


def check_python_module(installed: Installed, module: str, package: str) -> None:
    """Check that Python in a container can import a module; start the container if its record does not say.

    `package`: Package that contains the module.

    Raises LackingError if the module is missing, or the container does not start.
    """
    installed.check_program()
    if any(known.name.lower() == package for known in installed.record.packages):
        return
    code = f"import importlib.util; print(importlib.util.find_spec({module!r}) is None)"
    done = run([str(installed.program), "exec", "--", "python", "-c", away_from_here(code)])
    answer = done.stdout.strip()
    if answer == "False":
        return
    name = sh_word(installed.module)
    if answer != "True":
        said = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise LackingError(
            f"Python in {installed.module} did not start (exit code {done.status}): {said}",
            f"Try it: hpcmod exec {name} python --version",
        )
    raise LackingError(
        f"{installed.module} has no {package}, neither in its image nor in your own packages",
        f"Add it to your own packages: hpcmod add {name} {package}",
    )
