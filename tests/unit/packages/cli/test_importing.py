from __future__ import annotations

from pathlib import Path

import pytest

from tests.calls import hpcmod


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--from", "missing"), 3, "no such file"),
        (("--from", "list.txt", "einops"), 2, "give --from alone"),
        (("--from", "list.txt", "--lock", "x"), 2, "give --from alone"),
        (("einops", "--without", "x"), 2, "--without is for --from"),
        (("--from", "list.txt"), 7, "no container runtime"),
        (("--from", "."), 2, "no installed Python packages"),
    ],
)
def test_faults_say_what_to_do(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "list.txt").write_text("einops==0.8\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(home.rglob("*"))
    result = hpcmod("add", "PyTorch", *words)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert sorted(home.rglob("*")) == before
