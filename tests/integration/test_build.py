"""Images built as an ordinary user with each engine installed by dev/stack, and what a failed build leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod import __version__
from hpcmod.building.ingredients import plan_own
from hpcmod.building.values.building import BuildRequest
from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError
from hpcmod.images import Sif
from tests.builds import build, engine_processes, left_behind, make_plan
from tests.integration.conftest import sha256_of
from tests.stack import CHECKOUT, Done, Stack, run, until

pytestmark = pytest.mark.stack

ENGINES = ["buildah", "apptainer-rootmapped"]
"""And apptainer-fakeroot, with a definition file."""

FIRST = """
set -eu
mkdir -p /opt/trial/bin
printf '#!/bin/sh\\necho from the recipe\\n' >/opt/trial/bin/trial
chmod 755 /opt/trial/bin/trial
echo "$WORDS" >/opt/trial/words
id -u >/opt/trial/user
"""
SECOND = """
set -eu
touch /opt/trial/other-owner
chown 33:33 /opt/trial/other-owner
chmod 555 /opt/trial/bin
find /tmp /var/tmp -mindepth 1 >/opt/trial/temporary
touch "/tmp/$(basename "$0").left"
"""
FAILS = "echo 'make: *** no rule' >&2\nexit 7\n"


@pytest.fixture(autouse=True)
def tools(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stack's runtime on PATH, as on a machine that has one."""
    monkeypatch.setenv("PATH", str(stack.apptainer.parent), prepend=os.pathsep)


def names_in(*directories: str) -> set[str]:
    return {path.name for directory in directories for path in Path(directory).iterdir()}


def inside(stack: Stack, sif: Path, *argv: str) -> Done:
    done = run([str(stack.apptainer), "-q", "exec", str(sif), *argv], stack.environment(sif.parent / "state"))
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_makes_an_image_of_the_same_scripts(
    stack: Stack, small_base: Path, tmp_path: Path, engine: str
) -> None:
    told: list[str] = []
    out = tmp_path / "trial.sif"
    before = names_in("/tmp", "/var/tmp")
    plan = make_plan(small_base, FIRST, SECOND)
    built = build(plan, out, engine=engine, tell=told.append)
    assert (built.engine, built.reused, built.sha256) == (engine, False, sha256_of(out))
    assert [line for line in told if line.startswith("step ")] == ["step 01-first", "step 02-second"]
    assert inside(stack, out, "trial").stdout == "from the recipe\n"
    assert inside(stack, out, "cat", "/opt/trial/words", "/opt/trial/user").stdout == "a b\n0\n"
    assert inside(stack, out, "cat", "/opt/trial/temporary").stdout == ""
    assert inside(stack, out, "sh", "-c", "echo $TRIAL").stdout == "of the recipe\n"
    labels = Sif(out).labels()
    assert (labels["org.hpcmod.recipe"], labels["org.hpcmod.options"]) == ("trial", "mpi=none ofi=swap")
    assert labels["org.hpcmod.fingerprint"] == built.fingerprint
    assert dict(Sif(out).facts().labels)["org.hpcmod.fingerprint"] == built.fingerprint
    shown = run(
        [str(stack.apptainer), "inspect", "--json", "--labels", str(out)], stack.environment(tmp_path / "state")
    ).stdout
    assert json.loads(shown)["data"]["attributes"]["labels"] == labels
    assert left_behind(tmp_path) == []
    assert not [name for name in names_in("/tmp", "/var/tmp") - before if name.endswith(".left")]
    again = build(plan, out, environ={"PATH": ""})  # empty PATH: no engine could start
    assert again.reused and (again.sha256, again.engine) == (built.sha256, engine)
    known = Sif(out).provenance(None)
    assert known is not None and known.reference == "recipe:trial" and known.tool == f"hpcmod {__version__} by {engine}"
    with pytest.raises(BadInputError, match="was built from something else"):
        build(make_plan(small_base, FIRST + "true\n"), out)
    out.write_bytes(out.read_bytes() + b"x")
    with pytest.raises(BadInputError, match="was built from something else"):
        build(plan, out)


RUNS_FIRST = re.compile(r"^(STEP \S+ RUN|\+) .*01-first\.sh", re.MULTILINE)
KILLED = """
import os, sys
from pathlib import Path
from tests.builds import build, make_plan
build(make_plan(Path(sys.argv[1]), "touch /begun; sleep 300"), Path(sys.argv[2]), engine=sys.argv[3])
"""


@pytest.mark.parametrize("engine", ["buildah", "apptainer"])
def test_a_failed_component_is_reported_and_the_build_after_a_failed_and_a_killed_one_clears_up(
    small_base: Path, tmp_path: Path, engine: str
) -> None:
    out, mark = tmp_path / "trial.sif", f"HPCMOD_TEST_MARK={tmp_path}"
    with pytest.raises(HpcmodError) as caught:
        build(make_plan(small_base, FIRST, FAILS, "touch /never"), out, engine=engine)
    message = caught.value.message
    assert message.startswith("the component second failed: ")
    assert "make: *** no rule" in message and "03-third" not in message.partition("make: ***")[2]
    assert "make: *** no rule" in out.with_name("trial.sif.build.log").read_text()
    assert not out.exists() and left_behind(tmp_path) == []
    argv = [sys.executable, "-c", KILLED, str(small_base), str(out), engine]
    environ = {**os.environ, "HPCMOD_TEST_MARK": str(tmp_path), "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'src'}"}
    log = tmp_path / ".trial.sif.hpcmod-build" / "build.log"
    with subprocess.Popen(argv, env=environ, cwd=CHECKOUT, start_new_session=True) as started:
        try:
            assert until(lambda: bool(RUNS_FIRST.search(log.read_text() if log.exists() else "")))
        finally:
            started.kill()
    assert not out.exists()
    assert log.exists()  # a killed build leaves one hidden directory
    assert build(make_plan(small_base, "true"), out, engine=engine).path == out
    assert left_behind(tmp_path) == [] and not out.with_name("trial.sif.build.log").exists()
    assert engine_processes(mark) == []


def test_a_users_definition_file_becomes_a_sif(
    stack: Stack, small_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "data").write_text("a file\n")
    text = f"Bootstrap: oci\nFrom: {small_base}\n%files\n    data /opt/data\n%post\n    echo built >/opt/post\n"
    text += "    chown 33:33 /opt/post\n"
    (tmp_path / "app.def").write_text(text)
    plan = plan_own(Path("app.def"), BuildRequest(make_plan(small_base, FIRST).architecture))
    out = tmp_path / "app.sif"
    assert build(plan, out, engine="apptainer-fakeroot").engine == "apptainer-fakeroot"
    assert inside(stack, out, "cat", "/opt/data", "/opt/post").stdout == "a file\nbuilt\n"
    assert build(plan, out, engine="apptainer-fakeroot").reused
    with pytest.raises(BadInputError, match="this image is built from a definition"):
        build(replace(plan, fingerprint="other"), tmp_path / "other.sif", engine="buildah")


def test_a_terminated_build_leaves_nothing_behind(small_base: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    context = tmp_path / "state" / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM oci:{small_base}\nRUN echo begun; sleep 300\n")
    out, environ = tmp_path / "x.sif", {**os.environ, "HPCMOD_TEST_MARK": str(tmp_path), "HPCMOD_SITE": "generic"}
    program = "import sys; from hpcmod.core.cli.main import main; main(sys.argv[1:])"
    argv = [sys.executable, "-c", program, "build", str(context), "-o", str(out), "--engine", "buildah"]
    log = tmp_path / ".x.sif.hpcmod-build" / "build.log"
    places = ["/tmp", *filter(None, [os.environ.get("XDG_RUNTIME_DIR")])]
    before = names_in(*places)
    with subprocess.Popen(argv, env=environ, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert until(lambda: log.exists() and "\nbegun" in log.read_text())
            started.terminate()
            _, said = started.communicate(timeout=60)
        finally:
            started.kill()
    assert started.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in said
    assert engine_processes(f"HPCMOD_TEST_MARK={tmp_path}") == []
    assert left_behind(tmp_path) == [] and not out.exists()
    # other tests create such directories too, and remove them
    assert until(lambda: not [name for name in names_in(*places) - before if name.startswith("hpcmod-")])


def test_reports_a_missing_base_before_starting(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="/nowhere not found"):
        build(make_plan("oci:/nowhere", FIRST), tmp_path / "trial.sif")
    missing = make_plan("docker://127.0.0.1:9/nobody/nothing:1", FIRST)
    for engine in ("buildah", "apptainer"):
        with pytest.raises(NotFoundError, match=r"127.0.0.1:9/nobody/nothing:1 cannot be pulled: .*refused"):
            build(missing, tmp_path / "trial.sif", engine=engine)
    assert left_behind(tmp_path) == []


def test_a_build_has_the_files_of_its_context_and_nothing_of_the_users_environment(
    stack: Stack, small_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (tmp_path / "wheel of elsewhere").write_text("a wheel")
    (wheels / "a.whl").symlink_to("../wheel of elsewhere")
    show = 'cd "$(dirname "$0")/wheels"; ls >/seen; test ! -L a.whl -a "$(cat a.whl)" = "a wheel"; env >/variables'
    plan = make_plan(f"oci:{os.path.relpath(small_base)}", show, inputs=((str(wheels), "hpcmod/wheels"),))
    deep = Path("Capital" * 12) / "with blank"  # too long for a socket, and not valid as an image name
    settings = {"APPTAINERENV_OF_THE_USER": "1", "SINGULARITYENV_LD_PRELOAD": "/x.so", "APPTAINER_BIND": "/nowhere"}
    for engine in ("buildah", "apptainer"):
        out = deep / f"{engine}.sif"
        build(plan, out, engine=engine, environ={**os.environ, **settings, "HPCMOD_BUILD_DIR": "elsewhere"})
        assert left_behind(deep) == [] and list(Path("elsewhere").iterdir()) == []
        assert inside(stack, out.absolute(), "cat", "/seen").stdout == "a.whl\n"
        assert "wheels" not in inside(stack, out.absolute(), "ls", "/opt/hpcmod/build").stdout
        variables = inside(stack, out.absolute(), "cat", "/variables").stdout
        assert "WORDS=a b" in variables and "OF_THE_USER" not in variables and "LD_PRELOAD" not in variables
    (wheels / "b.whl").symlink_to("nowhere")
    with pytest.raises(NotFoundError, match=r"b.whl: broken symbolic link"):
        build(plan, deep / "none.sif")
