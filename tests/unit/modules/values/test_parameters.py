from __future__ import annotations

import re

from hpcmod.modules.values.parameters import MODULE_CLASSES, NEAR_PARAMETERS, PARAMETERS
from tests.stack import CHECKOUT


def test_every_parameter_on_the_page_is_known() -> None:
    text = (CHECKOUT / "docs/reference/easyconfig-parameters.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    described = {name for cell in cells for name in re.findall(r"\w+", cell)}
    assert len(described) >= 30
    assert described <= set(PARAMETERS)


def test_no_name_is_listed_twice() -> None:
    for names in ((*PARAMETERS, *NEAR_PARAMETERS), MODULE_CLASSES):
        assert len(set(names)) == len(names)
