"""Recipes imported from definition files and Dockerfiles, built with the engines installed by dev/stack."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.building.ingredients import SourceStore, plan_recipe
from hpcmod.image.sif.format import architecture_name
from hpcmod.importing.builds.definition import import_definitions
from hpcmod.importing.builds.dockerfile import import_dockerfiles
from hpcmod.importing.writing import write_easyconfigs
from hpcmod.model.recipes.building import BuildRequest
from tests.builds import build
from tests.foreign_recipes import write_tree
from tests.integration.conftest import THOROUGH
from tests.stack import Stack, run

pytestmark = pytest.mark.stack

DOCKERFILE = """\
ARG TAG=12
FROM debian:${TAG}
ARG VERSION=1.0
ENV A=1 ODD="it's" PATH=/opt/x/bin:$PATH
RUN echo "$A $ODD $VERSION" >/out && \\
    echo "${PATH%%:*}" >>/out
WORKDIR /work
COPY b ./sub
COPY --chmod=755 a.txt /opt/x/bin/tool
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
RUN <<EOF
[[ -d sub ]]
pwd >>/out
EOF
RUN ["touch", "/a b"]
COPY <<'EOF' /text
$A
EOF
"""
DEFINITION = """\
Bootstrap: docker
From: debian:12
%arguments
    MODE=fast
%files
    b /data
    a.txt /opt/x/bin/tool
%post
    chmod 755 /opt/x/bin/tool
    echo {{ MODE }} >/out
    cat >/text <<X
it's $((1 + 1))
X
%environment
    export PATH=/opt/x/bin:$PATH
"""
FILES = {"a.txt": "#!/bin/sh\necho tool\n", "b/c.txt": "c\n", "app.def": DEFINITION, "Dockerfile": DOCKERFILE}
KINDS = {
    "Dockerfile": (
        "cat /out /work/sub/c.txt /text && ls '/a b' && tool",
        "1 it's 1.0|/opt/x/bin|/work|c|$A|/a b|tool|",
    ),
    "app.def": ("cat /out /text /data/c.txt && tool", "fast|it's 2|c|tool|"),
}
"""For each file, a command to run in the image and its output, with | for newlines."""

CASES = [("Dockerfile", "apptainer-fakeroot")]
if THOROUGH:
    CASES = [(kind, engine) for kind in KINDS for engine in ("buildah", "apptainer-fakeroot", "apptainer-rootmapped")]


@pytest.mark.parametrize(("kind", "engine"), CASES)
def test_an_imported_recipe_builds_what_the_original_says(
    stack: Stack, small_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, engine: str
) -> None:
    monkeypatch.setenv("PATH", str(stack.apptainer.parent), prepend=os.pathsep)
    source = write_tree(tmp_path / "tool", FILES) / kind
    convert = import_dockerfiles if kind == "Dockerfile" else import_definitions
    (row,) = write_easyconfigs(convert([source]), tmp_path / "recipes", verb="hpcmod import")
    assert row.status == "converted", row.reason
    request = BuildRequest(architecture_name(os.uname().machine), base=f"oci:{small_base}")
    store = SourceStore(lock=tmp_path / "lock", downloads=tmp_path / "downloads", offline=True)
    out = tmp_path / "x.sif"
    build(plan_recipe(row.path, request, store=store), out, engine=engine)
    script, expected = KINDS[kind]
    argv = [str(stack.apptainer), "-q", "exec", "--no-home", str(out), "sh", "-c", script]
    done = run(argv, stack.environment(tmp_path / "state"))
    assert done.stdout.replace("\n", "|") == expected, done.stderr
