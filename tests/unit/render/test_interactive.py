from __future__ import annotations

import subprocess
from pathlib import Path

from hpcmod.render.interactive import MARK, render_python


def test_the_interpreter_passes_its_arguments_to_python_in_the_container(tmp_path: Path) -> None:
    program = tmp_path / "it's here" / "in-environment"
    program.parent.mkdir()
    program.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    text = render_python(str(program), "Toy/1.0")
    assert MARK in text.splitlines()[1]
    done = subprocess.run(
        ["bash", "-c", text, "python", "-c", "print('a b')"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["exec", "--", "python", "-c", "print('a b')"]
