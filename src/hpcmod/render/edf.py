"""Render environment definition files (EDF, TOML) for CSCS's Container Engine and Sarus Suite."""

from __future__ import annotations

from hpcmod.model.easyconfigs.edf import EdfText
from hpcmod.render.quote import sh_comment
from hpcmod.render.toml import render_toml, toml_text


def render_edf(edf: EdfText) -> str:
    """Return the text of the file, with a comment for everything that it does not have.

    Raises
    ------
    BadInputError
        If a string contains a NUL or is not Unicode.
    """
    comments = [
        f"made by hpcmod export edf from {edf.module}" + (f": {edf.description}" if edf.description else ""),
        *(f"not carried over: {clause}" for clause in edf.left_out),
        *(f"changed: {clause}" for clause in edf.changed),
    ]
    values: dict[str, object] = {"image": edf.image}
    if edf.mounts:
        values["mounts"] = edf.mounts
    values |= {"entrypoint": False, "writable": False}
    if edf.env:
        values["env"] = dict(edf.env)
    text = "".join(f"# {sh_comment(line)}\n" for line in comments) + render_toml(values)
    if edf.annotations:  # dotted keys as in CSCS's documentation
        text += "\n[annotations]\n" + "".join(f"{name} = {toml_text(value)}\n" for name, value in edf.annotations)
    return text
