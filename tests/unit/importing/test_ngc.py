from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.importing.ngc import convert_module, import_ngc
from hpcmod.importing.outcome import Refused
from hpcmod.modules.values.spec import parse_commands
from tests.foreign_recipes import NGC, A, write_ngc

PATH = Path("/x/pytorch/21.06-py3.lua")


def test_a_module_becomes_an_easyconfig_called_like_it() -> None:
    one = convert_module(NGC, PATH).easyconfig
    assert one.module == "pytorch/21.06-py3"
    assert one.image == "docker://nvcr.io/nvidia/pytorch:21.06-py3"
    assert one.wrapped_commands == parse_commands(["python", "python3", "nvc++"])
    assert one.description == 'PyTorch, with "quotes" and $(touch owned)'
    assert one.homepage == "https://example.org/pytorch"


def test_reports_values_that_are_not_carried_over() -> None:
    one = convert_module(NGC, PATH)
    assert set(one.left_out) == {
        "the command module, which would hide the host's command: run it by `singularity exec $SIF module`",
        "options of the runtime: --pid --pwd /w: write them after `singularity exec`",
        "the variable SINGULARITYENV_LD_LIBRARY_PATH, set it after loading the module: "
        'setenv("SINGULARITYENV_LD_LIBRARY_PATH", "")',
        "the variable SINGULARITY_BINDPATH, bind it yourself: export SINGULARITY_BINDPATH=...: "
        'append_path("SINGULARITY_BINDPATH", workspace .. ":/workspace", ",")',
    }
    assert dict(one.easyconfig.parameters)["modtclfooter"] == "conflict rapidsai\nconflict tensorflow\n"


def test_a_module_that_runs_the_images_entry_point_keeps_it() -> None:
    text = NGC.replace(" exec --nv --pid --pwd /w ", " run --nv ").replace(
        'entrypoint_args = ""', 'entrypoint_args = "-x y"'
    )
    one = convert_module(text, PATH)
    assert dict(one.easyconfig.wrapped_commands or ())["python"] == ("/.singularity.d/runscript", "-x", "y", "python")
    unnamed = convert_module(text.replace('.. " " .. program .. "', '.. "'), PATH)
    assert dict(unnamed.easyconfig.wrapped_commands or ())["python"] == ("/.singularity.d/runscript", "-x", "y")


def test_variables_and_binds_with_plain_values_are_carried() -> None:
    more = 'setenv("SINGULARITYENV_A", "b")\nsetenv("C", "d e")\nappend_path("SINGULARITY_BINDPATH", "/x:/y,/z", ",")\n'
    one = convert_module(NGC + more, PATH)
    assert one.easyconfig.environment == (("A", "b"),)
    assert one.easyconfig.bind_paths == ("/x:/y", "/z")
    assert dict(one.easyconfig.parameters)["modextravars"] == {"C": "d e"}
    assert one.notes == ("no digest is given, so the image is identified by its tag alone",)


def test_a_digest_is_kept() -> None:
    one = convert_module(NGC.replace('pytorch:21.06-py3"', f'pytorch@{A}"'), PATH)
    assert one.easyconfig.image.endswith(A)
    assert one.notes == ()


def test_a_version_that_is_not_the_files_is_noted() -> None:
    assert "it calls itself version 21.06-py3" in convert_module(NGC, PATH.with_name("21.07.lua")).notes


def test_a_description_without_its_key_is_one() -> None:
    assert convert_module(NGC.replace("Description: ", ""), PATH).easyconfig.description.startswith("PyTorch, with")


def test_comments_and_help_hold_no_facts() -> None:
    text = NGC.replace("local image", "--[[\nlocal image").replace("--local uri", "]]\n--local uri")
    with pytest.raises(BadInputError, match="image not found"):
        convert_module(text, PATH)


def test_others_are_refused_with_the_reason(tmp_path: Path) -> None:
    outcomes = import_ngc([write_ngc(tmp_path)])
    refused = {Path(one.origin).name: one.reason for one in outcomes if isinstance(one, Refused)}
    assert set(refused) == {"moving.lua", "1.0.lua"}
    assert "the tag latest without a digest" in refused["moving.lua"]
    assert "image not found" in refused["1.0.lua"]


@pytest.mark.parametrize("uri", ["docker://", "library://a/b", "/etc/passwd", "docker://x.io/UPPER:1"])
def test_refuses_a_reference_outside_of_registries(uri: str) -> None:
    with pytest.raises(BadInputError):
        convert_module(NGC.replace("docker://nvcr.io/nvidia/pytorch:21.06-py3", uri), PATH)


@pytest.mark.parametrize("opening", ["[", "--[[\n"])
def test_brackets_that_are_never_closed_take_little_time_and_hide_the_rest(opening: str) -> None:
    began = time.process_time()
    one = convert_module(f"{NGC}{opening * 20_000}\nsetenv('HIDDEN', '1')\n", PATH)
    assert one.easyconfig.parameters == convert_module(NGC, PATH).easyconfig.parameters
    assert time.process_time() - began < 1
