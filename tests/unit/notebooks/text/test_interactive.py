from __future__ import annotations

import subprocess
from pathlib import Path

from hpcmod.notebooks.text.interactive import MARK, render_python
from tests.programs import make_program


def test_the_interpreter_passes_its_arguments_to_python_in_the_container(tmp_path: Path) -> None:
    program = make_program(tmp_path / "it's here" / "in-environment", '#!/bin/bash\nprintf "%s\\n" "$@"\n')
    text = render_python(str(program), "Toy/1.0")
    assert MARK in text.splitlines()[1]
    done = subprocess.run(
        ["bash", "-c", text, "python", "-c", "print('a b')"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["exec", "--", "python", "-c", "print('a b')"]
