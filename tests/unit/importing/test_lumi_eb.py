from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.errors import BadInputError
from hpcmod.importing.lumi_eb import convert_easyconfig, import_lumi_eb
from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
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
    assert one.description == 'PyTorch, a machine learning package, with "quotes" and $(touch owned)'
    assert (one.homepage, one.moduleclass) == ("https://pytorch.org/", "devel")
    assert one.image in one.download_instructions


def test_reports_lost_variables_except_those_that_our_module_sets() -> None:
    lost = convert_easyconfig(LUMI, PATH).left_out
    assert lost == (
        "the long help text, because the module generates its own",
        "module variables (set them in the site profile if needed): NCCL_SOCKET_IFNAME",
        "binds (add them to the site profile if needed): /pfs, /scratch",
        "4 shell commands in postinstallcmds, replaced by hpcmod's scripts",
        "sanity_check_commands (1 entries)",
    )


def test_reports_a_lost_variable_whose_name_is_a_number() -> None:
    text = LUMI.replace("modextravars = {", "modextravars = {1: 'x',", 1)
    assert text != LUMI
    assert any(": 1, NCCL_SOCKET_IFNAME" in one for one in convert_easyconfig(text, PATH).left_out)


def test_commands_that_ours_wraps_anyway_are_not_listed_and_others_are() -> None:
    assert convert_easyconfig(LUMI, PATH).easyconfig.wrapped_commands == ()
    more = LUMI.replace("bin/torchrun", "bin/lightning")
    assert convert_easyconfig(more, PATH).easyconfig.wrapped_commands[-1] == "lightning"


def test_a_description_without_a_whatis_is_its_first_paragraph_with_templates_filled_in() -> None:
    text = LUMI.replace("'Description: ", "'Remark: ")
    assert (
        convert_easyconfig(text, PATH).easyconfig.description
        == "This module provides a container with PyTorch 2.7.1 on Python 3.12."
    )


def test_reports_lua_code_that_hpcmods_module_does_not_replace() -> None:
    text = LUMI.replace("conflict( 'singularity-AI-bindings' )", "load('other')\nos.execute('touch owned')")
    assert "Lua of the module: load('other'); os.execute('touch owned')" in convert_easyconfig(text, PATH).left_out


def test_uses_the_file_with_the_modules_name_if_two_make_it(outcomes: tuple[Outcome, ...]) -> None:
    assert [one.origin.rpartition("/")[2] for one in outcomes if isinstance(one, ImportedEasyconfig)] == [PATH.name]
    assert "would make PyTorch/2.7.1" in reason(outcomes, "exampleVenv-20250827.eb")


def test_a_file_with_another_name_is_noted() -> None:
    assert "makes PyTorch/2.7.1" in convert_easyconfig(LUMI, Path("other.eb")).notes[0]


def test_refuses_unreadable_files_with_the_reason(outcomes: tuple[Outcome, ...]) -> None:
    assert "version cannot be determined without running it: line 10" in reason(outcomes, "computed.eb")
    assert "must be a single SIF, found: x.tar.gz" in reason(outcomes, "source.eb")
    assert "already an hpcmod easyconfig" in reason(outcomes, "ours.eb")
    assert "not a valid easyconfig" in reason(outcomes, "broken.eb")


def test_names_facts_that_only_running_would_show() -> None:
    text = LUMI.replace("modextravars = {", "modextravars = {**nowhere,")
    assert "parameters that only running it would determine: modextravars" in convert_easyconfig(text, PATH).left_out


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


def test_chooses_none_of_two_images() -> None:
    text = "easyblock = 'MakeCp'\nname = 'x'\nversion = '1'\nsources = ['a.sif', 'b.sif']\n"
    with pytest.raises(BadInputError, match=r"must be a single SIF, found: a\.sif, b\.sif"):
        convert_easyconfig(text, Path("x-1.eb"))
