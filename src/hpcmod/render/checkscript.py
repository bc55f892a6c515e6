"""A check of a container as a bash script: a module of any module tool loaded, then the command that was declared."""

from __future__ import annotations

from hpcmod.render.quote import sh

NO_MODULE_TOOL = "no module tool: neither LMOD_CMD nor MODULES_CMD is set"
"""What the script says, and nothing else, where it cannot load a module; it ends with 127 then."""


def render_check(command: str, *, module: str, modulepath: str) -> str:
    """Render a script that ends as the command does, or fails where the module does not load.

    Parameters
    ----------
    command
        A line of bash, as a user would type it after `module load`.

    Notes
    -----
    A script that is not started by a login shell has no `module`. The variables are those by which EasyBuild finds its
    modules tool. The last `exit` keeps bash from replacing itself with the command: a wrapper would then see hpcmod as
    its caller, and run the host's Python instead of the container's.
    """
    return f"""\
if [ -n "${{LMOD_CMD:-}}" ]; then module() {{ eval "$("$LMOD_CMD" bash "$@")"; }}
elif [ -n "${{MODULES_CMD:-}}" ]; then module() {{ eval "$("$MODULES_CMD" bash "$@")"; }}
elif ! type module >/dev/null 2>&1; then echo {sh(NO_MODULE_TOOL)} >&2; exit 127
fi
module use {sh(modulepath)} && module load {sh(module)} || exit
{command}

exit
"""
