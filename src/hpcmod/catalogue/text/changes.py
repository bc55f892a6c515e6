"""Tell in words what differs between two renderings of a modulefile, or of the settings of its run scripts."""

from __future__ import annotations

import json
import re
import shlex

_ENTRY = re.compile(r"^(?: {4}|(?:set|lappend) container\()(\w+)(?: =|\)) ")
"""What begins a value of the data in a modulefile, in both syntaxes."""
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
_CODE_AND_REASON = re.compile(rf'((?:{_STRING.pattern}|[^"])*?)(?: (?:--|;#) (.*))?')
_SYNTAX = re.compile(r"= true|[\[\]{},=]|\b(?:list|to|options)\b|\\$")
"""What is around the strings and between them."""
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
    for word in shlex.split(re.sub(r"^\[\[ .*", "", text, flags=re.MULTILINE), comments=True):  # without its conditions
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
        split = _CODE_AND_REASON.fullmatch(line, begins.end() if begins else 0)
        code, _, reason = split.groups("") if split else (line, "", "")
        texts = [re.sub(r"\\(\W)", r"\1", text) for text in _STRING.findall(code)]
        name = texts[0] if texts and section in _WORDS.values() else ""
        if section == _WORDS["binds"] and "own_packages" not in code:  # as profiles write it, then how it is looked for
            texts = list(filter(None, [":".join(filter(None, texts[:3])), *texts[3:]]))
        value = " ".join([*texts, *_SYNTAX.sub(" ", _STRING.sub(" ", code)).split()]).strip()
        if section and value:
            entries[section, value if (section, name) in entries else name] = value, reason
    return entries
