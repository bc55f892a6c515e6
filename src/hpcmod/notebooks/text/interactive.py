"""Render the program that editors use as the Python interpreter of a container."""

from __future__ import annotations

from hpcmod.core.text.quote import sh_comment, sh_word

MARK = "Written by `hpcmod code`"
"""Text in the second line of the program."""


def render_python(program: str, module: str) -> str:
    """Render a bash program that runs Python in a container, and plain Python if it is called in a container.

    Parameters
    ----------
    program
        Path of the installation's `in-environment`.
    """
    words = " ".join(map(sh_word, (program, "exec", "--", "python")))
    return (
        "#!/bin/bash\n"
        f"# Python of the container module {sh_comment(module)}. {MARK}.\n"
        '[[ ! -d /.singularity.d ]] || exec python "$@" # a debugger in the container starts the program to debug\n'
        f'exec {words} "$@"\n'
    )
