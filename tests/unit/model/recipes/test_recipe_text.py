from __future__ import annotations

from hpcmod.model.recipes.recipe import parse_recipe
from hpcmod.model.recipes.recipe_text import RecipeText, StepText
from hpcmod.render.recipe import render_recipe


def test_the_recipe_is_read_back() -> None:
    text = RecipeText(
        summary="a 'summary'\nof two lines",
        gpu="cuda",
        bases=(("amd64", "docker://docker.io/library/debian:{tag}"),),
        settings=(("tag", "12"),),
        environment=(("A", "two words"),),
        search=(("PATH", "/a:/b"),),
        files=(("1/a b", '/x/a "b'),),
        steps=(StepText("run-01", "true\n", (("TAG", "{tag}"),)),),
    )
    files = render_recipe(text, ["a\nb", "c"])
    assert files["recipe.toml"].startswith("# a?b\n# c\n")
    assert files["components/run-01.sh"] == "true\n"
    recipe = parse_recipe(files["recipe.toml"], "x")
    assert (recipe.gpu, recipe.settings, recipe.environment) == ("cuda", text.settings, text.environment)
    assert recipe.files == text.files
    assert recipe.search_paths[0].directories == ("/a", "/b")
    assert recipe.steps[0].environment == (("TAG", "{tag}"),)
