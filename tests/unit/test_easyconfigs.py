"""What upstream's easyconfigs suite and our own rules ask of every easyconfig, read from its text alone."""

from __future__ import annotations

import ast
import re
import stat
from pathlib import Path
from typing import Any

import pytest

EASYCONFIGS = Path(__file__).resolve().parents[2] / "easyconfigs"
EASYBLOCKS = EASYCONFIGS.parent / "easyblocks"
FILES = sorted(EASYCONFIGS.rglob("*.eb"))
CONSTANTS = {"SYSTEM": {"name": "system", "version": "system"}}
OF_A_MACHINE = re.compile(r"\b(NCCL|RCCL|FI|MIOPEN|SLURM|SINGULARITY|APPTAINER|ROCR|CUDA|HIP|MPICH)_[A-Z_]+")
SHELL = re.compile(r"postinstallcmds|preinstallopts|prebuildopts|modluafooter|modtclfooter|modextravars|[`&|]|\$\(|#!/")

each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    """The parameters of an easyconfig, in the order they are set."""
    values: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        assert isinstance(node, ast.Assign), f"{path.name}:{node.lineno}: not an assignment"
        (target,) = node.targets
        assert isinstance(target, ast.Name)
        values[target.id] = value_of(node.value)
    return values


def value_of(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return CONSTANTS[node.id]
    return ast.literal_eval(node)


def is_built(values: dict[str, Any]) -> bool:
    """Return whether the image is built from a recipe, and found nowhere."""
    return bool(values["easyblock"] == "ContainerBuild")


def test_there_are_easyconfigs() -> None:
    assert len(FILES) >= 2


@each
def test_it_has_at_most_25_lines_of_at_most_120_columns(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 25
    assert [line for line in lines if len(line) > 120 or line != line.rstrip()] == []


@each
def test_it_is_named_after_name_version_and_suffix_below_its_letter(path: Path) -> None:
    values = read(path)
    assert path.name == f"{values['name']}-{values['version']}{values.get('versionsuffix', '')}.eb"
    letter = values["name"][0].lower()
    assert path.parent == EASYCONFIGS / (letter if letter.isalpha() else "0") / values["name"]


@each
def test_it_names_one_of_our_easyblocks(path: Path) -> None:
    easyblock = read(path)["easyblock"]
    assert (EASYBLOCKS / f"{easyblock.lower()}.py").is_file()


@each
def test_it_uses_no_compiler_toolchain(path: Path) -> None:
    assert read(path)["toolchain"] == CONSTANTS["SYSTEM"]


@each
def test_the_module_class_is_set_and_stands_last_where_inject_checksums_needs_it(path: Path) -> None:
    values = read(path)
    assert list(values)[-1] == "moduleclass"
    assert values["moduleclass"] not in ("", "base")


@each
def test_every_source_has_a_checksum_or_a_comment_that_says_why_not(path: Path) -> None:
    values = read(path)
    if is_built(values):
        return  # the recipe's lock file has the checksums
    assert values["sources"]
    assert len(values["checksums"]) == len(values["sources"])
    for checksum in values["checksums"]:
        if checksum is None:
            assert re.search(r"^# \S.+\n^checksums = ", path.read_text(encoding="utf-8"), re.MULTILINE)
        else:
            assert re.fullmatch("[0-9a-f]{64}", checksum)


@each
def test_it_says_where_the_image_comes_from(path: Path) -> None:
    values = read(path)
    recipe = EASYCONFIGS.parent / "recipes" / f"{values.get('recipe')}.toml"
    assert recipe.is_file() if is_built(values) else values.get("source_urls") or values.get("download_instructions")


@each
def test_it_has_a_description_and_a_secure_homepage(path: Path) -> None:
    values = read(path)
    assert values["description"].strip()
    assert values["homepage"].startswith("https://")
    assert "http://" not in path.read_text(encoding="utf-8")


@each
def test_its_sanity_check_adds_to_the_easyblocks_own(path: Path) -> None:
    values = read(path)
    assert set(values["sanity_check_paths"]) == {"files", "dirs"}
    assert any(values["sanity_check_paths"].values())
    assert values["enhance_sanity_check"] is True


@each
def test_it_holds_no_shell_no_bind_and_no_fact_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "bind_paths" not in read(path)
    assert [found[0] for found in OF_A_MACHINE.finditer(text)] == []
    code = "\n".join(line.partition("#")[0] for line in text.splitlines())
    assert [found[0] for found in SHELL.finditer(code)] == []


@each
def test_own_variables_are_marked_as_local(path: Path) -> None:
    known = {
        *(
            "easyblock",
            "name",
            "version",
            "versionsuffix",
            "homepage",
            "description",
            "toolchain",
            "sources",
            "source_urls",
        ),
        *(
            "download_instructions",
            "checksums",
            "install_mode",
            "wrapped_commands",
            "site_profile",
            "sanity_check_paths",
        ),
        *("sanity_check_commands", "enhance_sanity_check", "moduleclass", "docurls", "citing", "usage", "examples"),
        *("recipe", "mpi", "ofi", "components", "settings"),
    }
    assert [name for name in read(path) if name not in known and not name.startswith(("local_", "_"))] == []


@each
def test_its_file_is_plain_text_that_no_one_can_execute(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) & 0o111 == 0
    data = path.read_bytes()
    assert data.endswith(b"\n")
    assert b"\r" not in data
    assert b"\t" not in data
    assert b"%(root)" not in data
    assert b"$root" not in data


def test_no_two_easyconfigs_make_one_module() -> None:
    modules = [(values["name"], values["version"] + values.get("versionsuffix", "")) for values in map(read, FILES)]
    assert len(set(modules)) == len(modules)
