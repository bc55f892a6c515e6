"""An app for Open OnDemand that starts JupyterLab in the containers of a catalogue.

Its files are those of OSC/bc_example_jupyter@94d29b4ba705 (2018-03-13), as OSC/ondemand@e5bbaf1d7c4b reads them
(apps/dashboard/app/models/batch_connect/app.rb and session.rb, 2026-08-21). The `.erb` files are the same in all apps:
text of a catalogue or a profile is in form.yml and manifest.yml only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import read_texts
from hpcmod.core.values.text import is_file_name, terminal_line
from hpcmod.machine.values.site import Site
from hpcmod.modules.values.install_record import PROGRAM
from hpcmod.notebooks.values.ondemand import make_form

_FILES = Path(__file__).with_name("app")
_UNREADABLE = re.compile("[\ud800-\udfff\ufeff\ufffe\uffff]")


def make_app(
    containers: Sequence[tuple[CatalogueRecord, Path]], cluster: str, title: str, site: Site
) -> Iterator[tuple[str, str]]:
    """Yield the files of an app for Open OnDemand: path and text.

    `containers`: Records of containers with JupyterLab, each with the directory of its installation.
    `cluster`: Name of the cluster in Open OnDemand: that of its file in clusters.d.

    Raises BadInputError if no cluster can have the name; LackingError if the machine's scheduler is not Slurm.
    """
    if not is_file_name(cluster):
        raise BadInputError(f"{cluster!r} is not the name of a cluster", "Name its file in clusters.d, without .yml.")
    shown = [
        (record.module + " (deprecated)" * (record.state == "deprecated"), str(directory / PROGRAM))
        for record, directory in containers
    ]
    manifest = {
        "name": title,
        "category": "Interactive Apps",
        "subcategory": "Servers",
        "icon": "fa://book",
        "role": "batch_connect",
        "description": f"JupyterLab in a container on a compute node of {site.name}.",
    }
    yield "manifest.yml", render_yaml(manifest)
    yield "form.yml", render_yaml(make_form(shown, cluster, site))
    for folder in ("", "template/"):
        for name, text in read_texts(_FILES / folder, ".erb").items():
            yield f"{folder}{name}.erb", text


def render_yaml(value: Any) -> str:
    """Render a value as YAML: in the form of JSON, without the characters that a reader of YAML refuses or folds."""
    lines = json.dumps(value, ensure_ascii=False, indent=2).split("\n")
    return "".join(f"{_UNREADABLE.sub('?', terminal_line(line))}\n" for line in lines)
