from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.importing.lumi_eb import convert_easyconfig, import_lumi_eb
from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
from hpcmod.modules.values.spec import parse_commands
from tests.foreign_recipes import LUMI, LUMI_NAME, write_lumi

PATH = Path(f"{LUMI_NAME}.eb")


@pytest.fixture
def outcomes(tmp_path: Path) -> tuple[Outcome, ...]:
    return import_lumi_eb([write_lumi(tmp_path)])


def reason(outcomes: tuple[Outcome, ...], name: str) -> str:
    (found,) = (one.reason for one in outcomes if isinstance(one, Refused) and one.origin.endswith(name))
    return found


def test_the_easyconfig_names_the_same_image_and_the_same_module() -> None:
    one = convert_easyconfig(LUMI, PATH).easyconfig
    assert one.file_name == PATH.name
    assert one.image == "lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1-dockerhash-0123456789ab.sif"
    assert one.description.startswith("This module provides a container with PyTorch 2.7.1 on Python 3.12.\n\nAnd help")
    assert dict(one.parameters)["whatis"] == [
        'Description: PyTorch, a machine learning package, with "quotes" and $(touch owned)',
        "Keywords: PyTorch",
    ]
    assert (one.homepage, one.moduleclass) == ("https://pytorch.org/", "devel")
    assert one.image in one.sif.instructions


def test_carries_variables_binds_checks_and_code_of_the_module() -> None:
    one = convert_easyconfig(LUMI, PATH)
    parameters = dict(one.easyconfig.parameters)
    assert one.left_out == ()
    assert parameters["modextravars"] == {"NCCL_SOCKET_IFNAME": "hsn"}
    assert parameters["sanity_check_commands"] == ["python --version"]
    assert (
        parameters["modluafooter"]
        == "conflict( 'singularity-AI-bindings' )\n-- Call a routine to set the various environment variables.\n"
    )
    assert one.easyconfig.bind_paths == ("/pfs", "/scratch")
    assert "the empty element of PATH in the container, which means the current directory, is gone" in one.changed


def test_exactly_the_commands_are_wrapped_that_the_recipe_wraps() -> None:
    assert convert_easyconfig(LUMI, PATH).easyconfig.wrapped_commands == parse_commands(
        ["python", "python3", "torchrun"]
    )
    bare = re.sub(r"    f?'(cat|ln).*\n", "", LUMI)
    assert convert_easyconfig(bare, PATH).easyconfig.wrapped_commands == ()


SCRIPTS = r"""
postinstallcmds = [
    'mkdir -p %(installdir)s/bin %(installdir)s/runscripts',
    'cat >%(installdir)s/bin/start-shell <<EOF\nsingularity exec $SIF bash\nEOF',
    'cat >%(installdir)s/bin/tool-info <<EOF\necho $SIF\nEOF',
    'chmod a+x %(installdir)s/bin/tool-info',
    'chmod a+x %(installdir)s/bin/start-shell',
    'cd %(installdir)s && singularity exec x.sif python -m venv --system-site-packages v',
    'cat >%(installdir)s/requirements.txt <<EOF\neinops==0.7\n# no\ntimm\nEOF',
    'singularity exec -B /x x.sif bash -c "pip install -r requirements.txt"',
]
"""


def test_scripts_that_hpcmod_lacks_are_carried_and_other_commands_are_named_whole() -> None:
    one = convert_easyconfig(re.sub(r"(?s)postinstallcmds = \[.*?\n\]\n", lambda _: SCRIPTS, LUMI, count=1), PATH)
    assert dict(one.easyconfig.parameters)["postinstallcmds"] == [
        "mkdir -p %(installdir)s/bin %(installdir)s/runscripts",
        "cat >%(installdir)s/bin/tool-info <<EOF\necho $SIF\nEOF",
        "chmod a+x %(installdir)s/bin/tool-info",
    ]
    assert dict(one.easyconfig.parameters)["user_packages"] == ["einops==0.7", "timm"]
    assert [said for said in one.left_out if "the package" in said] == []
    command = 'singularity exec -B /x x.sif bash -c "pip install -r requirements.txt"'
    assert one.left_out[-1].endswith(f"installation: {command} (its packages are in user_packages)")


def test_the_file_with_the_modules_name_comes_first_if_two_make_it(outcomes: tuple[Outcome, ...]) -> None:
    files = [one.origin.rpartition("/")[2] for one in outcomes if isinstance(one, ImportedEasyconfig)]
    assert files == [PATH.name, "PyTorch-2.7.1-rocm-6.2.4-python-3.12-singularity-exampleVenv-20250827.eb"]


def test_a_file_with_another_name_is_noted() -> None:
    assert "makes PyTorch/2.7.1" in convert_easyconfig(LUMI, Path("other.eb")).notes[0]


def test_refuses_unreadable_files_with_the_reason(outcomes: tuple[Outcome, ...]) -> None:
    assert "version cannot be determined without running it: line 10" in reason(outcomes, "computed.eb")
    assert "must be a single SIF, found: x.tar.gz" in reason(outcomes, "source.eb")
    assert "already an hpcmod easyconfig" in reason(outcomes, "ours.eb")
    assert "not a valid easyconfig" in reason(outcomes, "broken.eb")


@pytest.mark.parametrize(
    "change",
    [
        ("local_sif =     f'lumi", "local_sif =     f'../lumi"),
        ("name =          'PyTorch'", "name =          '../x'"),
        ("local_suffix = ''", "sources = 7"),
        ("{'filename': local_sif,", "{'filename': local_sif + nowhere,"),
        ("name =          'PyTorch'", ""),
    ],
    ids=str,
)
def test_names_that_lead_elsewhere_are_refused(change: tuple[str, str]) -> None:
    text = LUMI.replace(*change)
    if "sources = 7" in text:
        text = text.replace("sources = [{", "local_x = [{")
    with pytest.raises(BadInputError):
        convert_easyconfig(text, PATH)


def test_a_recipe_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    convert_easyconfig(LUMI + "\nopen('owned', 'w')\n__import__('os').system('touch owned')\n", PATH)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["--[[\n" * 20_000, "a" * 100_000, "a.b:" * 20_000])
def test_a_long_text_for_the_module_takes_little_time(text: str) -> None:
    began = time.process_time()
    convert_easyconfig(f'{LUMI}modluafooter = """{text}"""\n', Path("x.eb"))
    assert time.process_time() - began < 1
