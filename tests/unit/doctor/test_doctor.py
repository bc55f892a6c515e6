from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.doctor.doctor import check_machine
from hpcmod.modules import find_parts
from tests.programs import make_program

pytestmark = pytest.mark.slow

EASYCONFIGS = "/ours/easyconfigs"


@pytest.fixture
def sound(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that lacks nothing; its programs answer as the real ones do."""
    answers = {"apptainer": "echo apptainer version 1.4.5", "eb": "", "python3": ""}
    for name, line in answers.items():
        make_program(tmp_path / name, f"#!/bin/sh\n{line}\n")
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "LMOD_CMD": "/lmod", "HPCMOD_SITE": "generic"}


def found(environ: dict[str, str], subject: str) -> Finding:
    (finding,) = [finding for finding in check_machine(environ, EASYCONFIGS) if finding.subject == subject]
    return finding


def subjects(environ: dict[str, str]) -> list[str]:
    return [finding.subject for finding in check_machine(environ, EASYCONFIGS) if finding.level != OK]


def test_on_a_sound_machine_all_is_well(sound: dict[str, str]) -> None:
    assert subjects(sound) == []


def test_says_which_runtime_and_which_site_it_found(sound: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "singularity").symlink_to("apptainer")
    assert found(sound, "runtime").found == f"{tmp_path}/singularity, apptainer version 1.4.5"
    assert found({**sound, "HPCMOD_SITE": "lumi"}, "site profile").found == "lumi"


def test_says_how_images_are_striped_if_the_profile_says_that(sound: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "x1.toml").write_text('name = "x1"\n[images]\nstriping = "-c 8"\n')
    striped = {**sound, "HPCMOD_SITE": str(tmp_path / "x1.toml")}
    assert found(striped, "striping").level == WARN
    make_program(tmp_path / "lfs", "#!/bin/sh\n")
    assert found(striped, "striping").found == "lfs setstripe -c 8, for images on Lustre"


def link_python(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hpcmod run with a Python in another directory."""
    directory.mkdir()
    (directory / "python3").symlink_to(sys.executable)
    monkeypatch.setattr("sys.executable", f"{directory}/python3")


def test_without_a_runtime_or_a_module_tool_or_eb_that_fails_with_a_cure(
    sound: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_python(tmp_path / "alone", monkeypatch)
    del sound["LMOD_CMD"]
    sound["PATH"] = str(tmp_path / "nothing")
    for subject in ("runtime", "module tool", "eb"):
        assert found(sound, subject).level == FAIL
        assert found(sound, subject).cure


def test_eb_is_asked_for_the_easyblock_and_its_reason_is_reported(sound: dict[str, str], tmp_path: Path) -> None:
    reason = "hpcmod does not run with the Python 3.12 of eb, /usr/bin/python3.12: no zstandard for it"
    error = f"ERROR: Failed to import easyblock x from /tmp/x: {reason}"
    make_program(tmp_path / "eb", f"#!/bin/sh\ncase $* in *ContainerModule*) echo '{error}' >&2; exit 7;; esac\n")
    finding = found(sound, "easyblock")
    assert (finding.level, finding.found) == (FAIL, reason)
    assert "hpcmod site env" in finding.cure


def test_an_eb_that_fails_is_reported_once(sound: dict[str, str], tmp_path: Path) -> None:
    said = "AttributeError: '_NamespacePath' object has no attribute 'insert'"
    make_program(tmp_path / "eb", f'#!/bin/sh\necho "{said}" >&2; exit 1\n')
    assert subjects({**sound, "MODULES_CMD": "/modulecmd", "LMOD_CMD": ""}) == ["easyblock"]
    assert found(sound, "easyblock").found.startswith("EASYBUILD_INCLUDE_EASYBLOCKS is set")
    cure = 'eval "$(hpcmod site env)", or for the eb of your site: deactivate'
    assert found({**sound, "VIRTUAL_ENV": "/venv"}, "easyblock").cure == cure


def test_an_eb_beside_hpcmod_that_is_not_on_path_is_used(
    sound: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_python(tmp_path / "own", monkeypatch)
    (tmp_path / "eb").rename(tmp_path / "own/eb")
    assert subjects(sound) == []
    assert "not on PATH" in found(sound, "eb").found
    # asked as `hpcmod install` runs it, although a module without --eb sets these for the eb of the site
    make_program(tmp_path / "own/eb", '#!/bin/sh\n[ "$EB_PYTHON${EASYBUILD_INCLUDE_EASYBLOCKS+set}" = "$OWN" ]\n')
    of_module = {"EB_PYTHON": "/usr/bin/python3", "EASYBUILD_INCLUDE_EASYBLOCKS": find_parts().easyblocks}
    assert subjects({**sound, **of_module, "OWN": sys.executable}) == []


@pytest.mark.parametrize(
    ("paths", "hidden"),
    [
        pytest.param("/x", True, id="hides the default"),
        pytest.param("/x:", False, id="with the default"),
        pytest.param(f"/x:{EASYCONFIGS}", False, id="names ours"),
        pytest.param("", False, id="empty"),
    ],
)
def test_a_robot_path_that_hides_our_easyconfigs_is_reported(sound: dict[str, str], paths: str, hidden: bool) -> None:
    assert (subjects({**sound, "EASYBUILD_ROBOT_PATHS": paths}) == ["robot paths"]) is hidden


def test_a_loaded_module_is_reported_because_eb_does_not_replace_it(sound: dict[str, str]) -> None:
    environ = {**sound, "CONTAINERROOT": "/sw/PyTorch/2.7", "_HPCMOD_CONTAINER": "PyTorch/2.7"}
    finding = found(environ, "loaded module")
    assert (finding.level, finding.cure) == (WARN, "module unload PyTorch/2.7")
    assert found({**sound, "CONTAINERROOT": "/sw/PyTorch/2.7"}, "loaded module").cure == "module unload PyTorch"


@pytest.mark.parametrize("name", ["BIND", "BINDPATH"])
@pytest.mark.parametrize(
    ("legacy", "current", "told"),
    [
        pytest.param("/a", "/b", True, id="differ"),
        pytest.param("/a", "", True, id="the current one is empty"),
        pytest.param("/a", "/a", False, id="equal"),
        pytest.param("/a", None, False, id="only the legacy one"),
        pytest.param(None, "/b", False, id="only the current one"),
    ],
)
def test_a_pair_of_bind_variables_that_differ_is_reported(
    sound: dict[str, str], name: str, legacy: str | None, current: str | None, told: bool
) -> None:
    pair = {f"SINGULARITY_{name}": legacy, f"APPTAINER_{name}": current}
    environ = {**sound, **{key: value for key, value in pair.items() if value is not None}}
    assert (subjects(environ) == ["binds"]) is told
