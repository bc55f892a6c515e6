"""README and docs, checked against the code: links, commands, flags, keys and codes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from textwrap import dedent

import click
import pytest

from hpcmod.catalogue.records import store
from hpcmod.catalogue.values import record
from hpcmod.catalogue.values.advisory_schema import KEYS, parse_advisory
from hpcmod.compat.values import netstack
from hpcmod.core import errors, resources
from hpcmod.core.cli.main import main
from hpcmod.core.cli.output import JSON_VERSION
from hpcmod.core.cli.reference.commands import verbs_of
from hpcmod.core.errors import HpcmodError
from hpcmod.images.trust import provenance
from hpcmod.jobs.values.masks import cpu_masks
from hpcmod.machine.values.profile import make_site, parse_profile
from hpcmod.modules.text.modulefile import render_body
from hpcmod.modules.text.runscript import SETTINGS_FILE, render_runscripts
from hpcmod.modules.values import install_record
from hpcmod.packages.values import state
from tests.plans import make_example

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def page(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def anchor_of(heading: str) -> str:
    """Return the anchor that a heading gets on the web."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def dead_links(path: Path) -> list[str]:
    """Return the links of a page to files or headings that do not exist in the checkout."""
    text = path.read_text(encoding="utf-8")
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if re.match(r"[a-z]+:", link):
            exists = link.startswith("https://")
        else:
            exists = target.exists() and (not anchor or anchor in anchors_of(target))
        dead += [] if exists else [link]
    return dead


def anchors_of(path: Path) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if path.suffix == ".md" else []
    return [anchor_of(heading) for heading in headings]


def test_every_link_leads_somewhere() -> None:
    assert {str(path): dead for path in PAGES if (dead := dead_links(path))} == {}


def test_a_dead_link_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A b\n[a](b.md) [b](#a-b) [c](#c) [d](b.md#e) [e](a.md#a-b) [f](http://f.org)")
    assert dead_links(tmp_path / "a.md") == ["b.md", "#c", "b.md#e", "http://f.org"]


FENCED = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""A code block, also in a list."""


def code_of(text: str) -> list[str]:
    """Return the lines of code blocks, and the text in backquotes."""
    blocks = [dedent(block) for block in FENCED.findall(text)]
    return [*"\n".join(blocks).splitlines(), *re.findall(r"`([^`]+)`", FENCED.sub("", text))]


def test_code_is_that_of_all_blocks_and_backquotes() -> None:
    text = "- In a `list`:\n\n  ```console\n  hpcmod a\n    b\n  ```\n\nProse, `c`.\n\n```\nd `e`\n```\n"
    assert code_of(text) == ["hpcmod a", "  b", "", "d `e`", "list", "c"]


def faults_of(line: str) -> list[str]:
    """Return the mistakes in calls of hpcmod in a line of code."""
    faults = []
    for call in re.findall(r"(?:^|\$\(|[|;&] *|^\$ |\b[A-Z_]+=\S+ )hpcmod\b(?![.:-])([^|;&)#]*)", line):
        command: click.Command = main
        words = iter(re.sub(r""""[^"]*"|'[^']*'""", "'...'", call.partition(" -- ")[0]).split())
        for word in words:
            if command.context_settings.get("ignore_unknown_options"):
                break  # the rest is for the container's runtime and the command in it
            if word.startswith("-"):
                options = [
                    option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
                ]
                if word.partition("=")[0] not in (*options, "-h", "--help"):
                    faults.append(f"no flag {word}: {line}")
                if isinstance(command, click.Group):
                    named = (one for one in command.params if isinstance(one, click.Option) and word in one.opts)
                    values = sum(one.nargs for one in named if not (one.is_flag or one.count))
                    list(islice(words, values))  # values of options, not verbs
            elif isinstance(command, click.Group):
                try:  # `hpcmod import FILE` is a command too
                    below = command.resolve_command(click.Context(command), [word])[1]
                except (click.UsageError, HpcmodError):
                    faults.append(f"no verb {word}: {line}")
                    break
                assert below is not None
                command = below
    return faults


def test_every_verb_and_flag_of_hpcmod_exists() -> None:
    lines = ((path, line) for path in PAGES for line in code_of(path.read_text(encoding="utf-8")))
    faults = [f"{path.relative_to(CHECKOUT)}: {fault}" for path, line in lines for fault in faults_of(line)]
    cure = "If a word is not a command on purpose, leave hpcmod out of the backquotes: `list`."
    assert not faults, "\n".join([*faults, cure])


@pytest.mark.parametrize(
    "line",
    ["hpcmod instal x.eb", "hpcmod install --fast x.eb", 'eval "$(hpcmod envv)"', "A=b hpcmod site sho", "$ hpcmod x"],
)
def test_a_wrong_verb_or_flag_would_be_noticed(line: str) -> None:
    assert faults_of(line)


def test_the_pages_show_the_commands_there_are() -> None:
    written = [path for path in PAGES if path.name != "CHANGELOG.md" and path.parent.name != "reference"]
    shown = " ".join(line for path in written for line in code_of(path.read_text(encoding="utf-8")))
    assert [name for name in verbs_of(main) if f"hpcmod {name}" not in shown] == []


def named_in(pages: Iterable[Path], pattern: str, *, code: bool = False) -> set[tuple[str, str]]:
    """Return the matches of a pattern in the text or the code of pages, each with its page."""
    texts = ((str(path.relative_to(CHECKOUT)), path.read_text(encoding="utf-8")) for path in pages)
    parts = ((path, part) for path, text in texts for part in (code_of(text) if code else [text]))
    return {(path, word) for path, part in parts for word in re.findall(pattern, part)}


def test_every_script_of_the_checkout_that_is_named_exists() -> None:
    named = named_in(PAGES, r"(?<!\S)\./[\w/.-]+", code=True)
    assert [one for one in named if not one[1].endswith(".toml") and not (CHECKOUT / one[1]).exists()] == []


def test_every_path_of_the_checkout_that_is_named_exists() -> None:
    rooms = r"`((?:src|easyblocks|easyconfigs|recipes|runscripts|tests|dev|docs)/[\w/.*-]*)`"
    named = named_in(PAGES, rooms)
    assert len(named) > 20
    assert [one for one in named if not list(CHECKOUT.glob(one[1].rstrip("/")))] == []


def test_every_easyconfig_that_is_named_exists() -> None:
    names = {file.name for file in (CHECKOUT / "easyconfigs").rglob("*.eb")}
    named = named_in(PAGES, r"(?<!/)\b[A-Z]\w+-[\w.-]+\.eb\b")
    assert named
    assert [one for one in named if one[1] not in names] == []


def codes_in(table: str) -> dict[int, str]:
    return {
        int(code): meaning.strip() for code, meaning in re.findall(r"^\|? *(\d+) *\|? +(.+?)\|?$", table, re.MULTILINE)
    }


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    listed = codes_in(page("docs/reference/exit-codes.md"))
    assert listed == codes_in(errors.__doc__ or "")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HpcmodError)]
    assert set(listed) == {0, errors.INTERRUPTED} | {kind.exit_code for kind in kinds}


def test_the_numbers_of_formats_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| .+ \| `(\w+)` \| (\d+) \|$", page("docs/reference/how-long.md"), re.MULTILINE)
    written = [store.FORMAT, state.STATE_VERSION, netstack.RECORD_VERSION, provenance._VERSION]
    written = [install_record.RECORD_VERSION, record.RECORD_VERSION, *written]
    assert rows == list(zip(("record", "record", "format", "state", "record", "version"), map(str, written)))
    assert f"| `version` is {JSON_VERSION}." in page("docs/reference/how-long.md")


def test_the_readme_lists_the_same_exit_codes_as_the_help() -> None:
    listed = re.search(r"0 ok.*?interrupted\.", page("README.md"), re.DOTALL)
    helped = re.search(r"0 ok.*?interrupted\.", main.help or "", re.DOTALL)
    assert listed is not None
    assert helped is not None
    assert listed[0].split() == helped[0].split()


def test_the_site_profiles_that_are_shown_are_valid_and_show_the_right_form() -> None:
    texts = re.findall(r"^```toml\n(.*?)^```", page("docs/how-to/site-profile.md"), re.MULTILINE | re.DOTALL)
    first, second = (make_site([parse_profile(text, "site-profile.md")]) for text in texts)
    assert (first.name, first.images.central) == ("ours", ("/apps/containers",))
    assert cpu_masks(first.nodes.usual, 4)[0] == "0xfffe"
    assert (second.name, second.module.caches.root) == ("mine", "/scratch/mine/cache")


def test_the_advisory_that_is_shown_is_valid_and_all_its_keys_are_explained() -> None:
    text = page("docs/how-to/advisories.md")
    (shown,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert parse_advisory(shown, "advisories.md", "x").unset == ("NCCL_NET_GDR_LEVEL",)
    explained = {
        key for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for key in re.findall(r"`([^`]+)`", row)
    }
    assert explained == set(KEYS)


def test_the_trust_policy_that_is_shown_is_valid() -> None:
    texts = re.findall(r"^```toml\n(.*?)^```", page("docs/how-to/images.md"), re.MULTILINE | re.DOTALL)
    policies = [make_site([parse_profile(f'name = "ours"\n{text}', "images.md")]).images.trust for text in texts]
    rules = [[rule.needs for rule in policy.rules] for policy in policies]
    assert rules == [[("signature",), ()], [("signature", "attestation:https://spdx.dev/Document")]]


def test_the_netstack_that_is_shown_is_valid() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", page("docs/how-to/host-libraries.md"), re.MULTILINE | re.DOTALL)
    site = make_site([parse_profile(f'name = "ours"\n{text}', "host-libraries.md")])
    assert site.all_binds == (site.network.netstack.directory,)


@pytest.mark.parametrize("path", sorted((CHECKOUT / "easyblocks").glob("*.py")), ids=lambda path: path.stem)
def test_every_parameter_of_the_easyblock_is_explained_with_its_default_and_no_other(path: Path) -> None:
    """Read the easyblock's source, because unit tests do not import EasyBuild."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (easyblock,) = (node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name.startswith("Cont"))
    (declared,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("PARAMETERS")
    )
    text = page("docs/reference/easyconfig-parameters.md").partition(f"## Parameters of `{easyblock}`")[2]
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \|", text.partition("## ")[0], re.MULTILINE)
    assert {name: ast.literal_eval(default) for name, default in rows} == {
        name: default for name, (default, _) in declared.items()
    }


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("docs/reference/easyconfig-parameters.md", "easyconfigs/p/PyTorch/PyTorch-2.7.1-rocm-6.2.4-singularity.eb"),
        ("docs/reference/runscripts.md", "runscripts/conda-python-distributed"),
        ("docs/tutorial/demo.md", "runscripts/conda-python-distributed"),
    ],
)
def test_a_page_shows_a_file_whole(golden: Callable[[Path, str], None], name: str, file: str) -> None:
    golden(CHECKOUT / name, with_block(page(name), page(file)))


def test_the_page_on_run_scripts_shows_the_settings_of_lumi_whole(golden: Callable[[Path, str], None]) -> None:
    plan = make_example("lumi")
    known = render_runscripts(plan.runscripts, plan, templates=resources.runscript_files())[SETTINGS_FILE]
    golden(CHECKOUT / "docs/reference/runscripts.md", with_block(page("docs/reference/runscripts.md"), known))


def with_block(text: str, whole: str) -> str:
    """Return a page in which the code block that is most like a text is this text."""
    lines = set(whole.splitlines())
    blocks = re.findall(r"^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return text.replace(max(blocks, key=lambda block: len(lines & set(block.splitlines()))), whole)


def test_the_module_page_shows_a_modulefile_whole(golden: Callable[[Path, str], None]) -> None:
    head, _, rest = re.split(r"^```lua\n(.*?)^```", page("docs/reference/module.md"), flags=re.MULTILINE | re.DOTALL)
    modulefile = render_body(make_example("lumi"), "Lua", resources.module_templates())
    golden(DOCS / "reference/module.md", f"{head}```lua\n{modulefile}```{rest}")


def test_the_module_page_mentions_every_run_script() -> None:
    text = page("docs/reference/module.md")
    names = [name.removesuffix(".j2") for name in resources.runscript_files() if "/" not in name]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_first_two_commands_of_the_readme_are_demo_and_test() -> None:
    commands = re.findall(r"^```console\n(.*?)^```", page("README.md"), re.MULTILINE | re.DOTALL)
    assert commands[0].splitlines() == ["./dev/demo", "./dev/test"]


def test_the_list_of_pages_has_every_page() -> None:
    linked = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)", page("docs/pages.md"))}
    assert {path.name for path in PAGES if DOCS in path.parents and path not in linked} == {"index.md", "pages.md"}


def test_no_formula_begins_the_pages() -> None:
    heads = (path.read_text(encoding="utf-8").partition("\n\n")[2] for path in PAGES)
    begun = Counter(tuple(re.findall(r"\w+", head)[:3]) for head in heads)
    assert [words for words, pages in begun.items() if pages > 2] == []


def test_the_first_page_has_a_door_for_each_kind_of_reader() -> None:
    doors = re.findall(r"^## (.+)\n\n((?:- .+\n)+)", page("docs/index.md"), re.MULTILINE)
    assert {door: len(links.splitlines()) for door, links in doors} == {
        "I run jobs": 5,
        "I run a machine": 5,
        "I build images": 5,
    }
