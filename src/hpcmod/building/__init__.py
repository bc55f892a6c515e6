"""Images from recipes: plan and build them. These are the names for other rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.building.image import BuildOptions as BuildOptions
    from hpcmod.building.image import build_image as build_image
    from hpcmod.building.image import prepare_build as prepare_build
    from hpcmod.building.ingredients import SourceStore as SourceStore
    from hpcmod.building.ingredients import default_lock as default_lock
    from hpcmod.building.ingredients import gather as gather
    from hpcmod.building.ingredients import plan_recipe as plan_recipe
    from hpcmod.building.ingredients import read_used as read_used
    from hpcmod.building.ingredients import record_first_use as record_first_use
    from hpcmod.building.text.recipe import render_build_plan as render_build_plan
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
