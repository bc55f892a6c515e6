"""The machine that an installation was made for, which decides, whatever the shell says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.text.quote import sh_word
from hpcmod.machine import FALLBACK, find_machine
from hpcmod.machine.values.site import Site
from hpcmod.modules.values.install_record import InstallRecord


def site_of(
    record: InstallRecord, here: Site, environ: Mapping[str, str], *, asked: str | None, tell: Callable[[str], None]
) -> Site:
    """Return the machine that an installation was made for; the shell's if another was asked for by name.

    `here`: The profile of this shell.
    `asked`: Value of --site.
    `tell`: Called with a line if this shell says another machine.

    Raises BadInputError if the profile can no longer be read.
    """
    if asked or not record.site or record.site == here.name:
        return here
    try:
        site = find_machine(None, environ, flag=record.profile or record.site).site
    except HpcmodError as err:
        raise BadInputError(
            f"{record.module} was installed for {record.site}, whose profile cannot be read: {err.message}",
            f"Choose a profile by name: --site {sh_word(here.profile)}",
        ) from err
    if says_another_site(record, here, environ):
        other = f"for {here.name}: --site {sh_word(here.profile)}"
        tell(f"using {record.site}, for which {record.module} was installed; {other}")
    return site._replace(name=record.site)


def says_another_site(record: InstallRecord, here: Site, environ: Mapping[str, str]) -> bool:
    """Return whether a shell names a machine, or runs on one, for which an installation was not made."""
    is_known = here.profile != FALLBACK or bool(environ.get("HPCMOD_SITE"))
    return is_known and record.site not in ("", here.name)
