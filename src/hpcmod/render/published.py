"""What a catalogue adds to the modules it publishes: the end of a retired one, use counted, and where aliases lead."""

from __future__ import annotations

from collections.abc import Iterable

from hpcmod.model.catalogue.record import CatalogueRecord
from hpcmod.render.modulefile import Templates, render_template
from hpcmod.render.quote import terminal

MODULERC = {"Lua": ".modulerc.lua", "Tcl": ".modulerc"}
"""By syntax, the file in a name's directory that says where its aliases lead."""


def render_published(
    text: str, syntax: str, templates: Templates, *, record: CatalogueRecord, usage: str, image: str
) -> str:
    """Render the modulefile that users see, from the one that `eb` wrote.

    Parameters
    ----------
    syntax
        One of `hpcmod.render.modulefile.SYNTAXES`.
    usage
        What begins the path of the file that each load makes; empty: none.
    image
        Path of the SIF, which a restricted container needs to be readable.

    Notes
    -----
    All of the former module stays below: running sessions can still unload it, and `module help` works.
    """
    retired = retirement(record) if record.state == "retired" else ""
    if not (retired or usage or record.readers or record.licence):
        return text
    values = {"retired": retired, "until": record.until, "usage": usage, "licence": record.licence}
    values |= {"image": image if record.readers else "", "unreadable": refusal(record), "unaccepted": terms(record)}
    head, rest = text.split("\n", 1) if syntax == "Tcl" else ("", text)  # a Tcl modulefile begins with #%Module
    return f"{head}\n{render_template('published', syntax, templates, values)}{rest}".lstrip("\n")


def retirement(record: CatalogueRecord) -> str:
    """Say that a container is retired, why, and what to use instead."""
    why = f": {' '.join(record.reason.split())}" if record.reason else ""
    lines = [f"{record.module} was retired{why}."]
    if record.successor:
        lines += [f"Use {record.successor} instead:", f"  module load {record.successor}"]
    else:
        lines += ["Others are listed by:", f"  hpcmod ls {record.name}"]
    return terminal("\n".join(lines))


def refusal(record: CatalogueRecord) -> str:
    """Return what is told to users who may not read the image: in one line, with whom to ask."""
    ask = record.publisher or "your site's support"
    return terminal(f"{record.module} is restricted to the group {record.readers}; to get access, ask {ask}")


def terms(record: CatalogueRecord) -> str:
    """Return what is told to users who have not accepted the licence."""
    cure = f"Read it and accept it once: hpcmod accept {record.module}"
    return terminal(f"{record.module} has a licence that you have not accepted. {cure}")


def render_modulerc(
    records: Iterable[CatalogueRecord], syntax: str, templates: Templates, *, default: CatalogueRecord | None
) -> str:
    """Render where the aliases of one name lead, which version is the default, and which ones are no longer shown."""
    known = sorted(records, key=lambda record: record.version)
    leads = [
        (record.module, [*record.aliases, *(["default"] if record is default else [])])
        for record in known
        if record.aliases or record is default
    ]
    hidden = [record.module for record in known if record.state == "retired"]
    return render_template("modulerc", syntax, templates, {"leads": leads, "hidden": hidden})
