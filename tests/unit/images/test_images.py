"""The names of the room, as the page on the use from Python shows them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod import images
from hpcmod.images.sif_file import Sif
from tests.oci_corpus import f, tar_bytes, write_layout
from tests.stack import CHECKOUT


def test_the_page_converts_a_layout_to_a_sif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (CHECKOUT / "docs/how-to/images-from-python.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    write_layout(tmp_path / "layout", [tar_bytes([f("usr/local/bin/tool", mode=0o755)])])
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "images-from-python.md", "exec"), {})  # noqa: S102 - our own page
    size = (tmp_path / "image.sif").stat().st_size
    first, *rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"image\.sif: {size} bytes, sha256 [0-9a-f]{{64}}", first)
    assert rest == ["for amd64, with 1 programs", "Python: none"]


def test_a_name_is_imported_when_it_is_used() -> None:
    code = "import sys, hpcmod.images; print(any(name.startswith('hpcmod.images.') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    assert images.Sif is Sif


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'read_fact'"):
        from hpcmod.images import read_fact  # noqa: F401
