"""What EasyBuild's tests and reviewers require of every easyblock, checked in its source."""

from __future__ import annotations

import ast
import re
import stat
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parents[2] / "easyblocks").glob("*.py"))
SHUNNED = {
    "self.log.error": "raise EasyBuildError",
    "self.log.exception": "raise EasyBuildError",
    "run_cmd": "run_shell_cmd",
    "run_cmd_qa": "run_shell_cmd",
    "os.system": "run_shell_cmd",
    "os.popen": "run_shell_cmd",
    "print": "print_msg",
    "exit": "raise EasyBuildError",
    "sys.exit": "raise EasyBuildError",
    "open": "read_file or write_file",
    "shutil.rmtree": "remove_dir",
    "os.makedirs": "mkdir",
}
"""Calls that reviewers reject, and what to use instead."""

DEPRECATED = {"post_install_step", "make_module_req_guess", "make_module_req", "run"}
STEPS_WITH_ARGUMENTS = {"prepare_step", "fetch_step", "checksum_step", "sanity_check_step", "make_module_extra"}

each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def first_class(path: Path) -> ast.ClassDef:
    return next(node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef))


def methods(path: Path) -> list[ast.FunctionDef]:
    return [node for node in first_class(path).body if isinstance(node, ast.FunctionDef)]


def test_there_are_easyblocks() -> None:
    assert "containermodule" in [path.stem for path in FILES]


@each
def test_its_first_class_is_generic_and_named_as_the_file(path: Path) -> None:
    found = first_class(path)
    assert found.name.lower() == path.stem
    assert not found.name.startswith("EB_")
    assert len(found.bases) == 1


@each
def test_it_opens_with_the_licence_and_says_who_wrote_it(path: Path) -> None:
    text = path.read_text()
    header = text.partition('"""')[0]
    assert "Copyright" in header
    assert "GNU General Public License" in header
    assert all(line.startswith("#") for line in header.splitlines())
    assert re.search(r"^@author: \S", ast.get_docstring(ast.parse(text)) or "", re.MULTILINE)


@each
def test_its_class_functions_and_methods_have_docstrings(path: Path) -> None:
    kinds = (ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
    assert [node.name for node in nodes if not ast.get_docstring(node)] == []


@each
def test_its_parameters_are_added_to_those_of_its_base(path: Path) -> None:
    base = ast.unparse(first_class(path).bases[0])
    for method in methods(path):
        if method.name == "extra_options":
            assert [ast.unparse(decorator) for decorator in method.decorator_list] == ["staticmethod"]
            assert f"{base}.extra_options(extra_vars)" in ast.unparse(method)


@each
def test_super_is_called_without_arguments(path: Path) -> None:
    assert re.findall(r"super\([^)]+\)", path.read_text()) == []


@each
def test_overridden_methods_keep_the_signature_of_the_base(path: Path) -> None:
    for method in methods(path):
        if method.name in STEPS_WITH_ARGUMENTS:
            assert ast.unparse(method.args) == "self, *args, **kwargs", method.name


@each
def test_it_calls_nothing_that_a_reviewer_shuns(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {ast.unparse(call.func): call.lineno for call in calls}
    assert [f"{path.name}:{line}: {name}, use {SHUNNED[name]}" for name, line in names.items() if name in SHUNNED] == []


@each
def test_it_overrides_nothing_deprecated(path: Path) -> None:
    assert DEPRECATED.isdisjoint(method.name for method in methods(path))


@each
def test_its_lines_have_at_most_120_columns_and_it_cannot_be_executed(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if len(line) > 120] == []
    assert stat.S_IMODE(path.stat().st_mode) & 0o111 == 0
