"""Installations for tests: a modulefile and the files it refers to, without `eb` and without an image."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hpcmod.core.resources import module_templates, runscript_files
from hpcmod.modules.text.modulefile import render_body, render_description, render_package_list
from hpcmod.modules.values.plan import InstallPlan
from tests.plans import make_example

END = {"Lua": ".lua", "Tcl": ""}
LOGIC = {Path(name).name: text for name, text in runscript_files().items() if name.endswith((".lua", ".tcl"))}
"""The files that modulefiles call, in Lua and Tcl: text by file name."""


def write_libexec(plan: InstallPlan) -> None:
    """Write the files that the modulefile of a plan reads."""
    libexec = Path(plan.spec.root, "libexec")
    libexec.mkdir(parents=True, exist_ok=True)
    for name, text in {**LOGIC, "packages": render_package_list(plan)}.items():
        (libexec / name).write_text(text, encoding="utf-8")


def install(top: Path, module: str, syntax: str = "Lua", *, root: Path | None = None) -> Path:
    """Write a modulefile and the files it refers to, as installing does; return the modulefile."""
    place = root or top / "software" / module
    example = make_example("lumi")
    plan = replace(example, spec=replace(example.spec, module=module, root=str(place)))
    head = "#%Module\n" if syntax == "Tcl" else ""
    parts = plan, syntax, module_templates()
    text = render_description(*parts, conflict="X") + render_body(*parts)
    path = top / "modules/all" / f"{module}{END[syntax]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + text)
    write_libexec(plan)
    (place / "bin").mkdir(parents=True)
    for name in ("x.sif", "bin/python"):
        (place / name).write_text("ours")
    files = ["bin/python", *(f"libexec/{path.name}" for path in (place / "libexec").iterdir())]
    image = {"path": str(place / "x.sif"), "size": 3}
    record = {"module": module, "image": image, "files": dict.fromkeys(files, "")}
    (place / "record.json").write_text(json.dumps(record))
    return path
