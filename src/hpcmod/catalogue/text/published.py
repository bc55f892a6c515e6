"""Catalogue additions to published modules: messages of retired ones, usage counting, and aliases."""

from __future__ import annotations

from collections.abc import Iterable

from hpcmod.catalogue.values.record import CatalogueRecord, refusal
from hpcmod.core.text.quote import terminal
from hpcmod.modules.text.modulefile import Templates, render_template


def render_published(
    text: str, syntax: str, templates: Templates, *, record: CatalogueRecord, usage: str, image: str
) -> str:
    """Render the modulefile that users see, from the one written by `eb`.

    `syntax`: One of `hpcmod.modules.text.modulefile.SYNTAXES`.
    `usage`: Prefix of the path of the file that each load creates; empty: none.
    `image`: Path of the SIF, which must be readable to load a restricted container.

    Notes
    -----
    The complete original module is kept below: running sessions can still unload it, and `module help` works.
    """
    retired = retirement(record) if record.state == "retired" else ""
    if not (retired or usage or record.readers or record.licence):
        return text
    values = {"retired": retired, "until": record.notice.until, "usage": usage, "licence": record.licence}
    values |= {"image": image if record.readers else "", "unreadable": refusal(record), "unaccepted": terms(record)}
    head, rest = text.split("\n", 1) if syntax == "Tcl" else ("", text)  # a Tcl modulefile begins with #%Module
    return f"{head}\n{render_template('published', syntax, templates, values)}{rest}".lstrip("\n")


def retirement(record: CatalogueRecord) -> str:
    """Return the message that a container is retired, why, and what to use instead."""
    notice = record.notice
    why = f": {' '.join(notice.reason.split())}" if notice.reason else ""
    lines = [f"{record.module} was retired{why}."]
    if notice.successor:
        lines += [f"Use {notice.successor} instead:", f"  module load {notice.successor}"]
    else:
        lines += ["To list other versions:", f"  hpcmod ls {record.name}"]
    return terminal("\n".join(lines))


def terms(record: CatalogueRecord) -> str:
    """Return the message for users who have not accepted the licence."""
    cure = f"To read and accept it: hpcmod install --accept-licence {record.module}"
    return terminal(f"{record.module} has a licence that you have not accepted. {cure}")


def render_modulerc(
    records: Iterable[CatalogueRecord], syntax: str, templates: Templates, *, default: CatalogueRecord | None
) -> str:
    """Render the aliases of one name, its default version, and the versions that are hidden."""
    known = sorted(records, key=lambda record: record.version)
    aliases = [
        (record.module, [*record.aliases, *(["default"] if record is default else [])])
        for record in known
        if record.aliases or record is default
    ]
    hidden = [record.module for record in known if record.state == "retired"]
    return render_template("modulerc", syntax, templates, {"aliases": aliases, "hidden": hidden})
