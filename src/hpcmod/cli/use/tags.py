"""Show the tags of a repository in a registry, for `hpcmod search`."""

from __future__ import annotations

import platform

from hpcmod.cli.output import format_size, print_json, print_table, tell
from hpcmod.cli.use.outputs import RepositoryTags
from hpcmod.image.sif.format import architecture_name
from hpcmod.image.tags import Tag, list_tags
from hpcmod.image.web.repository import Access
from hpcmod.model.images.reference import ImageReference
from hpcmod.render.quote import sh_word


def show_tags(text: str, *, most: int, allow_http: bool, as_json: bool) -> None:
    """Print the tags of a repository.

    Parameters
    ----------
    text
        Its reference; with a tag, only that one is shown.
    most
        Largest number of tags; 0: all.
    """
    reference = ImageReference.parse(text)
    only = reference.tag if text.rstrip("/").rpartition("/")[2].count(":") else ""
    machine = architecture_name(platform.machine())
    access = Access(allow_http=allow_http, announce=tell)
    found = list_tags(reference, architecture=machine, most=most, only=only, access=access)
    name = f"{reference.kind}://{reference.registry}/{reference.repository}"
    if as_json:
        print_json(RepositoryTags(name, found))
        return
    print_table(("TAG", "DATE", "SIZE", "ARCHITECTURES"), map(_row, found.tags))
    if found.total > len(found.tags):
        tell(f"{len(found.tags)} of {found.total} tags; for all of them: --limit 0")
    if not found.tags:
        tell(f"{name} has no tags")
        return
    fits = [one for one in found.tags if machine in one.architectures or (one.digest and not one.architectures)]
    if fits and not only:
        tell(f"to fetch one: hpcmod fetch {sh_word(f'{name}:{fits[0].name}')}")


def _row(tag: Tag) -> tuple[str, ...]:
    kinds = ", ".join(tag.architectures) or tag.problem
    return tag.name, tag.created or "-", format_size(tag.size) if tag.size else "-", kinds or "-"
