"""A tool not written in Python, published with its own commands: what users type, what `info` and the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.publishing import make_site, make_vendor_image
from tests.stack import ModuleTool

pytestmark = pytest.mark.stack


@pytest.fixture
def vendor_image(tiny_sif: Path, tmp_path: Path) -> Path:
    return make_vendor_image(tiny_sif, tmp_path)


def test_the_commands_of_a_tool_are_on_path_and_on_its_pages(
    module_env: ModuleTool, vendor_image: Path, tmp_path: Path
) -> None:
    site = make_site(module_env, tmp_path)
    commands = ("--command", "solve", "--command", "mesh=/opt/vendor/bin/mesh")
    site.published(vendor_image, "3.1", *commands, "--check", "solve 1 | grep -Fx 'solve: <1>'")

    done = site.user("module load Toy/3.1 && solve 'a b' '$x' && mesh 2 && type -P python | grep -c Toy")
    assert done.stdout.splitlines() == ["solve: <a b> <$x>", "mesh: <2>", "0"], done.stderr
    assert "solve" in site.record("3.1")["commands"]
    assert "env" not in site.record("3.1")["commands"]

    known = ("--name", "Toy", "--version", "3.2", "--no-slurm")
    for command, reason in (("nosuch", "has no command 'nosuch'"), ("mesh=/opt/no/mesh", "has no file /opt/no/mesh")):
        for dry_run in ((), ("--dry-run",)):
            refused = site.hpcmod("publish", str(vendor_image), *known, "--command", command, *dry_run)
            assert (refused.returncode, reason in refused.stderr) == (3, True), refused.stderr
    assert not (site.catalogue / "images/Toy-3.2.sif").exists()

    pages = tmp_path / "pages"
    site.does("catalogue", "docs", pages)
    text = "".join(path.read_text() for path in (pages / "containers").rglob("*.html"))
    assert "module load Toy/3.1\nmesh</code>" in text
    assert "\npython train.py" not in text
