from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.values.finding import Finding
from hpcmod.lint.easyconfigs.lint import lint_easyconfig
from hpcmod.modules.easyconfigs.files import find_recipes
from hpcmod.modules.text.easyconfig import render_easyconfig
from hpcmod.modules.values.easyconfig import EasyconfigText
from tests.foreign_recipes import LUMI, LUMI_NAME, A

CHECKOUT = Path(__file__).resolve().parents[4]
OURS = render_easyconfig(
    EasyconfigText(
        "PyTorch",
        "2.7.1",
        f"docker://ghcr.io/org/pytorch:2.7.1@{A}",
        "PyTorch 2.7.1 for ROCm 6.2.4",
        versionsuffix="-rocm-6.2.4",
        wrapped_commands=(("python", ("python",)),),
    )
)
OURS_PATH = Path("PyTorch-2.7.1-rocm-6.2.4.eb")
LUMI_RIGHT = LUMI.replace("/runscripts::", "/runscripts:").replace("create_container_vars", "-- vars")
LUMI_RIGHT = LUMI_RIGHT.replace("skipsteps", f"checksums = ['{'a' * 64}']\nskipsteps")


def lint(text: str, path: Path = OURS_PATH) -> tuple[Finding, ...]:
    return lint_easyconfig(text, path, exists=lambda name: name != "/dead")


def rules(text: str, path: Path = OURS_PATH) -> list[tuple[str, str]]:
    return [(one.rule, one.level) for one in lint(text, path)]


def test_right_recipes_have_no_faults() -> None:
    assert lint(OURS) == ()
    assert lint(LUMI_RIGHT, Path(f"{LUMI_NAME}.eb")) == ()


@pytest.mark.parametrize("path", sorted((CHECKOUT / "easyconfigs").rglob("*.eb")), ids=lambda path: path.stem)
def test_our_own_easyconfigs_have_no_errors(path: Path) -> None:
    assert [one for one in lint(path.read_text(encoding="utf-8"), path) if one.level == "fail"] == []


@pytest.mark.parametrize(
    ("old", "new", "rule", "level"),
    [
        ("version = '2.7.1'", "version = '2.7.0'", "file-name", "fail"),
        ("name = 'PyTorch'", "name = 'a b'", "does-not-load", "fail"),
        ("name = 'PyTorch'", "", "does-not-load", "fail"),
        ("version = '2.7.1'", "version = open('x').read()", "unseen", "warn"),
        ("toolchain", "x = '", "does-not-load", "fail"),
        (f":2.7.1@{A}", ":latest", "moving-tag", "fail"),
        (f":2.7.1@{A}", "", "moving-tag", "fail"),
        (f":2.7.1@{A}", ":2.7.1", "no-checksum", "warn"),
        ("docker://ghcr.io/org", "docker://org", "does-not-load", "fail"),
        ("'python'", "'python', 'module'", "does-not-load", "fail"),
        ("['python']", "{'python': []}", "does-not-load", "fail"),
        ("moduleclass", "environment = {'PATH': '/x'}\nmoduleclass", "does-not-load", "fail"),
        ("'python'", "'/usr/bin/python'", "does-not-load", "fail"),
        ("moduleclass", "bind_paths = ['data:/data']\nmoduleclass", "does-not-load", "fail"),
        ("moduleclass", "bind_paths = ['/dead:/x', '/alive']\nmoduleclass", "dead-bind", "warn"),
        ("image = ", "local_image = ", "does-not-load", "fail"),
        ("wrapped_commands", "wraped_commands", "unknown-parameter", "fail"),
        ("moduleclass = 'ai'", "moduleclass = 'aii'", "module-class", "warn"),
    ],
)
def test_a_mistake_in_one_of_ours_is_found(old: str, new: str, rule: str, level: str) -> None:
    assert old in OURS
    assert (rule, level) in rules(OURS.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("/runscripts:/user", "/runscripts::/user", "empty-path"),
        ("/runscripts:/user", ":/runscripts:/user", "empty-path"),
        ("'NCCL_SOCKET_IFNAME': 'hsn',", "'SINGULARITY_BIND': '/alive,/dead,%(installdir)s/x:/x,$HOME',", "dead-bind"),
        ("-- vars( ", "create_container_vars( 'x', 'y', '%(installdir)s', '/dead' )\n-- vars( ", "dead-bind"),
        ("-- vars(", "prepend_path( 'SINGULARITY_BIND', '/alive,/dead', ',' )\n-- vars(", "dead-bind"),
        ("checksums = ", "local_sums = ", "no-checksum"),
    ],
)
def test_a_mistake_in_one_of_lumis_is_found(old: str, new: str, rule: str) -> None:
    assert old in LUMI_RIGHT
    assert {name for name, _ in rules(LUMI_RIGHT.replace(old, new), Path(f"{LUMI_NAME}.eb"))} == {rule}


def test_easyconfigs_are_found_below_directories(tmp_path: Path) -> None:
    for name in ("a/x.eb", "b/y.eb", "b/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [path.name for path in find_recipes(tmp_path, ".eb")] == ["x.eb", "y.eb"]
