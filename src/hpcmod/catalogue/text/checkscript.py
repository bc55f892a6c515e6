"""Render a script that loads a module with any module tool and runs a check."""

from __future__ import annotations

from hpcmod.core.text.quote import sh

NO_MODULE_TOOL = "no module tool: neither LMOD_CMD nor MODULES_CMD is set"
"""The script's only output if it cannot load a module; its exit status is then 127."""

_MODULE = f"""\
if [ -n "${{LMOD_CMD:-}}" ]; then module() {{ eval "$("$LMOD_CMD" bash "$@")"; }}
elif [ -n "${{MODULES_CMD:-}}" ]; then module() {{ eval "$("$MODULES_CMD" bash "$@")"; }}
elif ! type module >/dev/null 2>&1; then echo {sh(NO_MODULE_TOOL)} >&2; exit 127
fi
"""


def render_check(command: str, *, module: str, modulepath: str, without: str = "") -> str:
    """Render a script that exits with the command's status, or fails if the module does not load.

    `command`: A line of bash, as a user would type it after `module load`.
    `without`: Directory of modules in which another copy may be: Lmod prefers it if it is the default there.

    Notes
    -----
    A script not started by a login shell has no `module` command. The variables are those from which EasyBuild finds
    its modules tool. The final `exit` keeps bash from replacing itself with the command: a wrapper would then see
    hpcmod as its caller, and run the host's Python instead of the container's.
    """
    unuse = f"module unuse {sh(without)}; " if without else ""
    return f"""\
{_MODULE}\
{unuse}module use {sh(modulepath)} && module load {sh(module)} || exit
{command}

exit
"""
