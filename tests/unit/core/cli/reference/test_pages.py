"""Markdown pages about the commands: every command and option is on one."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from hpcmod.core.cli.reference.commands import every_command, names_of, options_of
from hpcmod.core.cli.reference.pages import command_pages
from hpcmod.core.cli.verbs import GROUPS, HEADINGS
from hpcmod.core.registry import commands_of, rooms

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    return command_pages()


def test_every_command_has_a_page_that_the_list_links_to_under_its_heading(pages: Mapping[str, str]) -> None:
    names = [name for heading in HEADINGS for name in commands_of(heading)]
    titles = [text.partition("\n")[0] for text in pages.values()]
    assert titles == ["# Commands", *(f"# hpcmod {name}" for name in names), "# JSON Schemas"]
    assert re.findall(r"^## (.+)", pages["index.md"], re.MULTILINE) == [head for head in HEADINGS if commands_of(head)]
    assert re.findall(r"\]\((.+?)\.md\) \| \S", pages["index.md"]) == names


def test_every_heading_of_a_room_is_one_of_the_help() -> None:
    groups = {f"hpcmod {name}" for name in GROUPS}
    assert {heading for room in rooms() for heading in room.commands} <= {*HEADINGS, *groups}


def test_every_command_has_one_section_with_all_its_options(pages: Mapping[str, str]) -> None:
    sections = re.split(r"^##* hpcmod ", "\n".join(pages.values()), flags=re.MULTILINE)[1:]
    described = {section.partition("\n")[0]: section for section in sections}
    commands = {" ".join(words): command for words, command in every_command() if words}
    assert len(described) == len(sections)
    assert set(described) == set(commands)
    assert [
        f"{name} {option}"
        for name, command in commands.items()
        for parameter in options_of(command)
        for option in names_of(parameter)
        if not re.search(rf"^\| `.*{re.escape(option)}\b.*` \| \S", described[name], re.MULTILINE)
    ] == []


def test_a_bar_in_a_name_or_a_help_text_does_not_end_its_cell(pages: Mapping[str, str]) -> None:
    rows = re.findall(r"^\| `.+$", "\n".join(pages.values()), re.MULTILINE)
    assert any("\\|" in row.partition("` |")[0] for row in rows)
    assert [row for row in rows if len(re.findall(r"(?<!\\)\|", row)) != 3] == []
