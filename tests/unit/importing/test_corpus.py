"""Importers on one construct at a time: each is carried over, changed or reported as lost, nothing silently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from hpcmod.importing.lumi_eb import import_lumi_eb
from hpcmod.importing.ngc import import_ngc
from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
from hpcmod.importing.shpc import import_shpc
from hpcmod.importing.writing import write_easyconfigs
from tests.corpora.imports import LUMI, NGC, SHPC, Case
from tests.foreign_recipes import write_tree

Importer = Callable[[Iterable[Path]], Sequence[Outcome]]

FILES: dict[str, tuple[str, Importer, dict[str, Case]]] = {
    "lumi": ("Tool-1.2-singularity-20250101.eb", import_lumi_eb, LUMI),
    "shpc": ("tool/container.yaml", import_shpc, SHPC),
    "ngc": ("tool/1.0.lua", import_ngc, NGC),
}
CASES = [(kind, name) for kind, (_, _, cases) in FILES.items() for name in cases]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_report_names_all_that_is_carried_changed_and_lost(kind: str, name: str, tmp_path: Path) -> None:
    file, importer, cases = FILES[kind]
    case = cases[name]
    write_tree(tmp_path, {file: case.text, **{f"tool/{other}": text for other, text in case.others}})
    (one,) = importer([tmp_path / file])
    if case.refused:
        assert isinstance(one, Refused)
        assert case.refused in one.reason
        return
    assert isinstance(one, ImportedEasyconfig), one
    for clauses, expected in ((one.left_out, case.lost), (one.changed, case.changed)):
        assert len(clauses) == len(expected), clauses
        assert [text for text in expected if not any(text in clause for clause in clauses)] == [], clauses
    assert set(case.carried) <= set(one.carried), one.carried
    (row,) = write_easyconfigs([one], tmp_path / "out", verb="hpcmod import")
    text = " ".join(Path(row.path).read_text(encoding="utf-8").replace("\n#", " ").split())
    said = [" ".join(clause.split()) for clause in (*one.left_out, *one.changed)]
    assert [clause for clause in said if clause not in text] == []
