"""What `singularity run` does with a command line: only an entry script that starts it is worth running."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.values.facts import COMMAND, NO_ENTRY, OWN
from hpcmod.images import Sif
from tests import corpus
from tests.corpus import Node, Program, make_image

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")

NVIDIA = '#!/bin/bash\nif [[ $# -eq 0 ]]; then\n  exec "/bin/bash"\nelse\n  exec "$@"\nfi\n'
APPTAINER = """#!/bin/sh
OCI_ENTRYPOINT='{entry}'
OCI_CMD='"bash"'
if [ -z "$OCI_CMD" ]; then
    exec "$@"
fi
eval "set ${{OCI_RUN}}"
exec "$@"
"""


@pytest.mark.parametrize(
    ("script", "entry"),
    [
        pytest.param(None, NO_ENTRY, id="none"),
        pytest.param('echo "There is no runscript defined for this container\\n";\n', NO_ENTRY, id="Apptainer's"),
        pytest.param('#!/bin/sh\necho hello\nexec "$@"\n', COMMAND, id="starts it"),
        pytest.param('#!/bin/sh\n  exec "${@}" ;\n', COMMAND, id="starts it, written otherwise"),
        pytest.param('#!/bin/sh\nexec /app/server "$@"\n', OWN, id="a program of its own"),
        pytest.param(APPTAINER.format(entry=""), COMMAND, id="no entry point: the command line replaces CMD"),
        pytest.param(APPTAINER.format(entry='"/opt/nvidia.sh"'), COMMAND, id="NVIDIA's"),
        pytest.param(APPTAINER.format(entry='"/sbin/tini" "--"'), COMMAND, id="tini"),
        pytest.param(APPTAINER.format(entry='"python"'), OWN, id="an interpreter"),
        pytest.param(APPTAINER.format(entry='"/gone.sh"'), OWN, id="a script that is not there"),
        pytest.param(APPTAINER.format(entry="'\"'"), OWN, id="not words"),
        pytest.param('#!/bin/sh\nset -- \'/opt/nvidia.sh\' "$@"\nexec "$@"\n', COMMAND, id="converted by hpcmod"),
        pytest.param('#!/bin/sh\nset -- \'python\' "$@"\nexec "$@"\n', OWN, id="converted by hpcmod, an interpreter"),
    ],
)  # fmt: skip
def test_says_what_the_run_script_does_with_a_command_line(tmp_path: Path, script: str | None, entry: str) -> None:
    tree: dict[str, Node] = {"/opt/nvidia.sh": NVIDIA}
    if script is not None:
        tree["/.singularity.d/runscript"] = Program(script)
    image = make_image(tmp_path / "image.sif", tree, "-noI", "-noD", "-noF")
    assert Sif(image).entry() == Sif(image).facts().entry == entry
    assert Sif(tmp_path / "none.sif").entry() == COMMAND
