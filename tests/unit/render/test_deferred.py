from __future__ import annotations

import pytest

from hpcmod.render.deferred import defer
from hpcmod.render.modulefile import render_body, render_description
from hpcmod.resources import module_templates
from tests.plans import HOSTILE, make_example, make_plan_of

PLANS = {"lumi": make_example("lumi"), **{name: make_plan_of(text) for name, text in HOSTILE.items()}}


@pytest.mark.parametrize("name", PLANS)
def test_what_is_done_at_load_is_in_the_other_file_and_the_rest_stays(name: str) -> None:
    plan, templates = PLANS[name], module_templates()
    head = render_description(plan, "Lua", templates, conflict="X")
    body = render_body(plan, "Lua", templates)
    made = defer(f"{head}\n{body}", module="X/1", directory='/site/it\'s "here"')
    assert made.visible.startswith(head)
    assert made.code.endswith(body)
    assert "keep(" not in made.visible and "help(" not in made.code
    assert made.path.startswith('/site/it\'s "here"/')
    assert 'loadfile("/site/it\'s \\"here\\"/' in made.visible


def test_the_name_of_the_other_file_tells_what_is_in_it() -> None:
    one, same, other = (defer(f"x\n-- Written by hpcmod. {text}", module="X/1", directory="/d") for text in "aab")
    assert one == same
    assert one.path != other.path


def test_a_modulefile_of_somebody_else_stays_as_it_is() -> None:
    made = defer('help("\\n-- Written by hpcmod.")\n', module="X/1", directory="/d")
    assert (made.visible, made.path, made.code) == ('help("\\n-- Written by hpcmod.")\n', "", "")
