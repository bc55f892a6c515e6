"""Split a modulefile so that hpcmod's parts can be rendered again while EasyBuild's stay unchanged; tell changes."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError

_BEGINNING = {"Lua": "-- Written by hpcmod.", "Tcl": "# Written by hpcmod."}
_END = {"Lua": "\n-- Built with EasyBuild", "Tcl": "\n# Built with EasyBuild"}
_HEAD = {"Lua": "", "Tcl": "#%Module\n"}
_DESCRIPTION = {
    "Lua": re.compile(r'\nconflict\("[^\n]*"\)\n\n?'),
    "Tcl": re.compile(r'\nconflict "[^\n]*"\n\n?'),
}
"""The last line of hpcmod's description; no outside text can contain it, because literals have no line ends."""
_VARIABLE = re.compile(r'^(?:set container\(mark\)| *mark =) "([A-Z0-9_]+)"', re.MULTILINE)
_ENTRY = re.compile(r"^(?: {4}|(?:set|lappend) container\()(\w+)(?: =|\)) ")
"""What begins a value of the data in a modulefile, in both syntaxes."""
_PUNCTUATION = re.compile(r'["\[\],]|(?<!\$)\{|(?<![^\s"{}])\}|\blist\b|\\$')
"""What is around the values, not the braces of a `${VARIABLE}` in them."""
_WORDS = {
    "image": "image",
    "binds": "bind path",
    "variables": "variable",
    "in_container": "variable in the container",
    "in_container_unless_set": "variable in the container, unless set on the host",
    "path": "PATH in the container",
    "keep_out": "variable kept out of the container",
    "notices": "messages of the site",
}
_ASSIGNED = re.compile(r"(_[a-z_]+)=(.*)", re.DOTALL)
_BY_NODES = {"_settings_multi_node": "variable on several nodes", "_settings_single_node": "variable on one node"}
_IN_MODULE = {"_settings", "_binds", "_guard", "_defaults", "_environment", "_container_path", "_container_variables"}
_TOLD = {*_IN_MODULE, *_BY_NODES, "_node_types", "_question", "_command_lines"}
_Entries = dict[tuple[str, str], tuple[str, str]]
"""Value and reason, by kind and by the path or variable meant."""


@dataclass(frozen=True)
class ExistingModule:
    """A modulefile that `eb` wrote with hpcmod's easyblock."""

    head: str
    """The first line, the same for every modulefile of the syntax."""
    between: str
    """EasyBuild's text after hpcmod's description: EBROOT, PATH, and additions from hooks and easyconfigs."""
    tail: str
    """EasyBuild's text at the end."""
    variable: str
    """Suffix of the module's variables, e.g. PYTORCH of SIFPYTORCH."""

    def with_parts(self, description: str, body: str) -> str:
        """Return the modulefile with another description and body."""
        return f"{self.head}{description}{self.between}{body}{self.tail}"


def parse_module(text: str, syntax: str, where: str) -> ExistingModule:
    """Parse a modulefile into its parts.

    `syntax`: One of `hpcmod.modules.text.modulefile.SYNTAXES`.
    `where`: File name for messages.

    Raises BadInputError if hpcmod's easyblock did not write it.
    """
    described = _DESCRIPTION[syntax].search(text)
    beginning = text.find(_BEGINNING[syntax], described.end()) if described else -1
    variable = _VARIABLE.search(text, max(beginning, 0))
    if described is None or beginning < 0 or variable is None:
        raise BadInputError(f"{where} was not created by hpcmod's easyblock", "Publish the container again.")
    end = text.rfind(_END[syntax])
    tail = text[end + 1 :] if end > beginning else ""
    return ExistingModule(_HEAD[syntax], text[described.end() : beginning], tail, variable[1])


def describe_changes(before: str, after: str) -> list[str]:
    """Return what differs between two modulefiles of one syntax, in words for people."""
    lines = _describe(_read_entries(before), _read_entries(after))
    return lines if lines or before == after else ["changed help, comments or order"]


def describe_settings(before: str, after: str) -> list[str]:
    """Return what differs between two `lib/settings.bash` besides what the modulefile has too; nothing if damaged."""
    try:
        return _describe(_read_settings(before), _read_settings(after))
    except (ValueError, LookupError, TypeError, RecursionError):
        return []


def _describe(old: _Entries, new: _Entries) -> list[str]:
    lines = []
    for (section, name), (value, reason) in new.items():
        known = old.pop((section, name), ("", ""))[0]
        change = (
            f"changed {section}: {known} -> {value.removeprefix(f'{name} ')}" if known else f"added {section}: {value}"
        )
        if known != value:
            lines.append(f"{change} ({reason})" if reason else change)
    return lines + [f"removed {section}: {value}" for (section, _), (value, _) in old.items()]


def _read_settings(text: str) -> _Entries:
    """Return the values of `lib/settings.bash` that are not in the modulefile; the names of plain ones as they are."""
    words, name = dict[str, list[str]](), ""
    for word in shlex.split(text, comments=True):
        begins = _ASSIGNED.fullmatch(word)
        name, value = begins.groups() if begins else (name, word)
        words.setdefault(name, []).append(value)
    plain = {name.strip("_").replace("_", " "): " ".join(words[name]) for name in words if name not in _TOLD}
    entries = {(name, ""): (value, "") for name, value in plain.items()}
    for name, kind in _BY_NODES.items():
        within = words[name][1:-1]  # the parentheses
        entries |= {(kind, key): (f"{key} {value}", "") for key, value in zip(within[::2], within[1::2])}
    for row in words["_node_types"][1:-1]:
        partitions, _, cores = row.split("|")
        entries["cores near the GPUs of", partitions] = f"{partitions} {cores}", ""
    for node in json.loads(words["_question"][0])["nodes"]:
        facts = ", ".join(f"{key} {node[key]}" for key in ("cores", "cpus", "memory", "gpus"))
        entries["node type", node["name"]] = f"{node['name']} {facts}", ""
    return entries


def _read_entries(text: str) -> _Entries:
    """Return the values in a modulefile's data with their reasons, by kind and by the path or variable meant."""
    entries: _Entries = {}
    section = ""
    for line in text.splitlines():
        begins = _ENTRY.match(line)
        if begins:
            section = _WORDS.get(begins[1], begins[1])
        elif not line.startswith((" ", "]")):
            section = ""
        code, _, reason = re.sub(" (--|;#) ", "\0", line[begins.end() if begins else 0 :]).partition("\0")
        value = " ".join(_PUNCTUATION.sub(" ", code).replace(" = true", "").split())
        name = value.partition(" ")[0] if section in _WORDS.values() else ""
        if section and value:
            entries[section, value if (section, name) in entries else name] = value, reason
    return entries
