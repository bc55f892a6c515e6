"""The program that says what a node has; it runs under the Python of that node."""

from __future__ import annotations

from pathlib import Path

from hpcmod.core.resources import runscript_files


def node_program() -> str:
    """Return the Python program that looks at one node of a job: that of check-nodes, with another end."""
    functions = runscript_files()["lib/check_node.py"].partition("\nif __name__")[0]
    return functions + Path(__file__).with_name("all-facts").read_text(encoding="utf-8")
