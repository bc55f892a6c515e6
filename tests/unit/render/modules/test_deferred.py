from __future__ import annotations

import pytest

from hpcmod.render.modules.deferred import defer
from hpcmod.render.modules.modulefile import render_body, render_description
from hpcmod.resources import module_templates
from tests.plans import HOSTILE, make_example, make_plan_of

PLANS = {"lumi": make_example("lumi"), **{name: make_plan_of(text) for name, text in HOSTILE.items()}}


@pytest.mark.parametrize("name", PLANS)
def test_descriptions_and_load_actions_are_in_separate_files(name: str) -> None:
    plan, templates = PLANS[name], module_templates()
    head = render_description(plan, "Lua", templates, conflict="X")
    body = render_body(plan, "Lua", templates)
    made = defer(f"{head}\n{body}", module="X/1", directory='/site/it\'s "here"')
    (described, description), (loaded, load) = made.files
    before, _, rest = head.partition("    help(")
    assert made.visible.startswith(before)
    assert description.endswith("    help(" + rest.removesuffix("end -- is_description_wanted\n\n"))
    assert load.endswith(body)
    assert "keep(" not in made.visible + description and "help(" not in made.visible + load
    for path in (described, loaded):
        assert path.startswith('/site/it\'s "here"/')
        assert f'loadfile("/site/it\'s \\"here\\"/{path.rpartition("/")[2]}"' in made.visible


def test_files_are_named_after_their_content() -> None:
    one, same, other = (defer(f"x\n-- Written by hpcmod. {text}", module="X/1", directory="/d") for text in "aab")
    assert one == same
    assert one.files[0][0] != other.files[0][0]


def test_a_modulefile_of_another_user_stays_as_it_is() -> None:
    made = defer('help("\\n-- Written by hpcmod.")\n', module="X/1", directory="/d")
    assert (made.visible, made.files) == ('help("\\n-- Written by hpcmod.")\n', ())
