from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.registry import Registry
from tests.unit.modules.values.test_pinning import TEXT

pytestmark = pytest.mark.slow


def test_the_digest_of_the_tag_is_written(registry: Registry, tmp_path: Path) -> None:
    pushed = registry.push_image("org/pinned", [b""], tag="1.2")
    path = tmp_path / "tool.eb"
    path.write_text(TEXT.replace("quay.io/org/tool", f"{registry.host}/org/pinned"))
    assert json.loads(hpcmod("catalogue", "pin", "--dry-run", "--json", path).stdout)["easyconfigs"][0]["changed"]
    assert "sha256" not in path.read_text()
    done = hpcmod("catalogue", "pin", path)
    assert done.exit_code == 0, done.output
    assert f"pinned            {path}  {pushed['digest']}" in done.stdout
    assert pushed["digest"] in path.read_text()
    before = path.read_bytes()
    assert hpcmod("catalogue", "pin", path).stdout.startswith("unchanged")
    assert path.read_bytes() == before


def test_one_that_fails_does_not_keep_the_others_from_being_pinned(registry: Registry, tmp_path: Path) -> None:
    registry.push_image("org/pinned", [b""], tag="1.2")
    for name, image in (("bad", "org/missing"), ("good", "org/pinned")):
        (tmp_path / f"{name}.eb").write_text(TEXT.replace("quay.io/org/tool", f"{registry.host}/{image}"))
    (tmp_path / "file.eb").write_text(TEXT.replace("image = 'docker://quay.io/org/tool:1.2'", "sources = ['a.sif']"))
    done = hpcmod("catalogue", "pin", *(tmp_path / f"{name}.eb" for name in ("bad", "file", "good", "none")))
    assert done.exit_code == 3
    assert "bad.eb: " in done.stderr
    assert "sha256" not in (tmp_path / "bad.eb").read_text()
    assert "sha256" in (tmp_path / "good.eb").read_text()
    assert "not in a registry" in done.stdout
