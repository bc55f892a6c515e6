"""What a site offers: find, publish, change and retire containers. These are the names for other rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.catalogue.cli.containers import Here as Here
    from hpcmod.catalogue.cli.containers import complete_container as complete_container
    from hpcmod.catalogue.cli.containers import complete_image as complete_image
    from hpcmod.catalogue.cli.containers import container_argument as container_argument
    from hpcmod.catalogue.cli.containers import find_copy as find_copy
    from hpcmod.catalogue.cli.containers import find_meant as find_meant
    from hpcmod.catalogue.cli.containers import find_ready as find_ready
    from hpcmod.catalogue.cli.containers import loaded_modules as loaded_modules
    from hpcmod.catalogue.cli.containers import look_around as look_around
    from hpcmod.catalogue.cli.containers import name_variant as name_variant
    from hpcmod.catalogue.cli.installed import on_a_terminal as on_a_terminal
    from hpcmod.catalogue.finding.copies import loading_commands as loading_commands
    from hpcmod.catalogue.finding.find import did_you_mean as did_you_mean
    from hpcmod.catalogue.records.store import Catalogue as Catalogue
    from hpcmod.catalogue.records.store import find_catalogues as find_catalogues
    from hpcmod.catalogue.session import check_advisories as check_advisories
    from hpcmod.catalogue.session import published_cures as published_cures
    from hpcmod.catalogue.session import retired_installations as retired_installations
    from hpcmod.catalogue.visible.notices import look_for_notices as look_for_notices
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
