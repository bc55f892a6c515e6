"""The structure of the code, checked in its sources: imports and owners of libraries."""

from __future__ import annotations

import ast
import gc
import graphlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from hpcmod.core.registry import ROOMS
from hpcmod.core.resources import site_profiles
from hpcmod.core.values.text import away_from_here

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "src" / "hpcmod"
EASYBLOCKS = CHECKOUT / "easyblocks"
ARCHITECTURE = CHECKOUT / "docs" / "explanation" / "architecture.md"
PAGES = [ARCHITECTURE, *(ARCHITECTURE.with_name(f"{name}.md") for name in ("image-pipeline", "pipelines"))]
"""The pages that explain which file does what."""

OWNERS = {
    "subprocess": ("core/process.py",),
    "requests": ("images",),
    "urllib.request": (),
    "urllib3": (),
    "http": (),
    "jinja2": ("text",),
    "rattler": ("packages",),
    "sigstore": ("images/trust/keyless.py",),
    "tree_sitter": ("lint",),
    "tree_sitter_bash": ("lint",),
    "click": ("cli",),
    "easybuild": ("easyblocks",),
}
"""The rooms, the folders in any room, or the file, that may import a library."""

DOORS = {"os": ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"), "pty": ("spawn",)}
"""Functions that start a program without process.py; tests also match os.exec* and os.spawn* by their prefix."""

PURE_LIBRARIES = {
    *("__future__", "ast", "bisect", "calendar", "collections", "contextlib.contextmanager", "csv", "dataclasses"),
    *("difflib", "enum", "functools", "hashlib", "html"),
    *(
        "ipaddress",
        "itertools",
        "json",
        "math",
        "packaging",
        "posixpath",
        "re",
        "reprlib",
        "shlex",
        "statistics",
        "string",
        "struct",
        "sys",
        "textwrap",
        "tomli",
        "tomllib",
    ),
    *("types", "typing", "urllib.parse", "warnings", "yaml"),
}
"""Libraries that values/ and text/ may also import: none opens files, reads the environment or uses the clock."""

SOURCES = sorted(PACKAGE.rglob("*.py")) + sorted(EASYBLOCKS.glob("*.py"))
PURE = [path for path in SOURCES if {"values", "text"} & set(path.relative_to(CHECKOUT).parts)]


def name_of(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def room_of(path: Path) -> str:
    """Return the room that a source file belongs to; empty for the package itself."""
    if EASYBLOCKS in path.parents:
        return "easyblocks"
    return path.relative_to(PACKAGE).parent.parts[0] if path.parent != PACKAGE else ""


def places_of(path: Path) -> set[str]:
    """Return the names by which OWNERS calls a source file: its room, the folders in it, and its own path."""
    if EASYBLOCKS in path.parents:
        return {"easyblocks"}
    inside = path.relative_to(PACKAGE)
    return {*inside.parts[:-1], inside.as_posix()}


@pytest.fixture(scope="module", autouse=True)
def without_garbage() -> Iterator[None]:
    """Search for no garbage while there are syntax trees of all sources: half a million objects, without cycles."""
    gc.disable()
    yield
    parse.cache_clear()
    nodes_of.cache_clear()
    gc.enable()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), name_of(path))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(parse(path)))


@cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    """Return every import of a file, at any level: line and dotted name; `from a import b` counts as a.b and a."""
    return list(find_imports(path))


def find_imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def imported_room(dotted: str) -> str:
    """Return the room that an import names; empty for other libraries, and for the package itself."""
    if dotted.startswith("easybuild.easyblocks.generic.container"):
        return "easyblocks"
    first, *rest = dotted.split(".")
    return rest[0] if first == "hpcmod" and rest and (PACKAGE / rest[0]).is_dir() else ""


def is_library(dotted: str, library: str) -> bool:
    """Return whether a dotted name is a library or something in it."""
    return f"{dotted}.".startswith(f"{library}.")


def why_not(room: str, other: str) -> str:
    """Return why a room may not import another; empty if it may."""
    if room in (other, "easyblocks"):
        return ""
    if other not in ROOMS:
        return f"{other} is not a room that code imports"
    return f"{other} is to the right of {room}" if ROOMS.index(other) > ROOMS.index(room) else ""


def test_every_room_has_its_place_in_the_order() -> None:
    wrong = {room_of(path) for path in SOURCES} ^ {*ROOMS, "easyblocks", ""}
    assert not wrong, f"add to ROOMS in src/hpcmod/core/registry.py, or remove from it: {sorted(wrong)}"


def test_a_room_imports_only_rooms_to_its_left() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {dotted}: {reason}"
        for path in SOURCES
        for line, dotted in imports_of(path)
        if (other := imported_room(dotted)) and (reason := why_not(room_of(path), other))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("room", "other"), [("core", "machine"), ("images", "modules"), ("lint", "easyblocks")])
def test_the_rule_finds_the_mistake(room: str, other: str) -> None:
    assert why_not(room, other)


MOST_NAMES = 18
"""Names of images: few, so that it could be a library of its own; the number only falls."""

NAMED = tuple(room for room in ROOMS if room != "core")
"""Rooms of which others import only the names in `__init__`, and what is in the folders `values`.

What is in a folder `text` may import from others, as it may import no effects.
"""

PAST_NAMES = {
    "building/base_image.py": ("images.trust.policy",),
    "building/ingredients.py": ("images.acquire.fetch", "images.registry"),
    "packages/bake/environment.py": ("images.squashfs.tree",),
    "packages/bake/image.py": ("images.inspect.contents",),
    "packages/bake/packages.py": (
        *("images.squashfs", "images.squashfs.nodes"),
        "images.squashfs.tree",
        "images.squashfs.writer",
    ),
    "packages/bake/placement.py": ("images.inspect.contents", "images.squashfs.tree"),
    "packages/bake/writing.py": (
        *("images.sif.labels", "images.sif.reader", "images.sif_writer", "images.squashfs"),
        *("images.squashfs.nodes", "images.squashfs.tree", "images.squashfs.writer"),
    ),
    "packages/conda/image.py": ("images.inspect.contents",),
}
"""Files that import from inside of these rooms; this list only becomes shorter."""


def imports_from_inside(path: Path) -> Iterator[str]:
    """Yield the modules inside of other rooms, from which a file imports: not their names, and not values."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module and imported_room(node.module) != room_of(path):
            module = node.module.partition("hpcmod.")[2]
            pure = {"values", "text"} if "text" in places_of(path) else {"values"}
            if module.partition(".")[0] in NAMED and "." in module and not pure & set(module.split(".")):
                yield module


def test_images_is_a_library_that_needs_core_alone_but_for_its_settings_and_commands() -> None:
    files = [path for path in SOURCES if room_of(path) == "images" and "cli" not in places_of(path)]
    allowed = ("", "core", "images")
    others = {path.name for path in files for _, dotted in imports_of(path) if imported_room(dotted) not in allowed}
    assert others == {"settings.py"}


def test_other_rooms_import_the_names_of_a_room_and_not_its_files() -> None:
    inside = {name_of(path).removeprefix("src/hpcmod/"): set(imports_from_inside(path)) for path in SOURCES}
    allowed = {name: set(modules) for name, modules in PAST_NAMES.items() if name.partition("/")[0] in ROOMS}
    assert {name: modules for name, modules in inside.items() if modules} == allowed


@pytest.mark.parametrize("room", NAMED)
def test_each_name_of_a_room_is_used_by_another_and_is_not_also_a_file(room: str) -> None:
    named = {dotted.rpartition(".")[2] for _, dotted in imports_of(PACKAGE / room / "__init__.py")}
    named -= {"TYPE_CHECKING", "annotations", "named_in"}
    others = [path for path in SOURCES if room_of(path) != room]
    used = {
        dotted.rpartition(".")[2]
        for path in others
        for _, dotted in imports_of(path)
        if f"{dotted}.".startswith(f"hpcmod.{room}.") and dotted.count(".") == 2
    }
    assert room != "images" or len(named) <= MOST_NAMES
    assert used <= named
    assert used == named or len(ROOMS) < 14  # without a leaf room, what it alone uses is left over
    assert named & {path.stem for path in (PACKAGE / room).iterdir()} == set()


@pytest.mark.parametrize(("library", "owners"), OWNERS.items(), ids=OWNERS)
def test_a_library_has_one_owner(library: str, owners: tuple[str, ...]) -> None:
    found = [
        f"{name_of(path)}:{line} imports {dotted}; only {' and '.join(owners) or 'nobody'} may"
        for path in SOURCES
        for line, dotted in imports_of(path)
        if is_library(dotted, library) and not places_of(path) & set(owners)
    ]
    assert not found, "\n".join(found)


def test_only_one_module_starts_programs() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}: {node.value.id}.{node.attr}"
        for path in SOURCES
        # the easyblock starts eb again where the Python is too old to import hpcmod
        if name_of(path) not in ("src/hpcmod/core/process.py", "easyblocks/containermodule.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.attr in DOORS.get(node.value.id, ())
        or (node.value.id == "os" and node.attr.startswith(("exec", "spawn")))
    ]
    assert not found, "\n".join(found)


def test_values_and_text_import_nothing_that_touches_the_world() -> None:
    allowed = PURE_LIBRARIES | {"hpcmod"}
    found = [
        f"{name_of(path)}:{line} imports {dotted}"
        for path in PURE
        for line, dotted in imports_of(path)
        if not any(is_library(dotted, library) for library in allowed)
        if not (is_library(dotted, "jinja2") and "text" in places_of(path))
    ]
    assert not found, "\n".join(found)


def test_values_and_text_open_no_file_and_print_nothing() -> None:
    calls = {"open", "input", "print", "exec", "eval", "__import__"}
    loaders = {"FileSystemLoader", "PackageLoader", "ModuleLoader"}
    found = [
        f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}"
        for path in PURE
        for node in nodes_of(path)
        if (isinstance(node, ast.Name) and node.id in calls)
        or (isinstance(node, ast.Attribute) and node.attr in loaders)
    ]
    assert not found, "\n".join(found)


def test_values_and_text_import_only_values_text_and_errors() -> None:
    """What is pure may not become impure by what it imports."""
    wrong = [
        f"{name_of(path)}:{line} imports {dotted}"
        for path in PURE
        for line, dotted in imports_of(path)
        if is_library(dotted, "hpcmod") and dotted.count(".") > 1
        if not {"values", "text", "errors"} & set(dotted.split("."))
    ]
    assert not wrong, "\n".join(wrong)


SAFE = "import sys; sys.path[:] = filter(None, sys.path)"
"""Statement of a program for `python -c` that takes the working directory, where others may write, off its path."""

SAFE_ARGUMENTS = {
    "easyblocks/containermodule.py": "AGAIN_ELSEWHERE",  # begins with the statement
    "src/hpcmod/runs/bandwidth/steps.py": "bandwidth_program()",  # its file begins with the statement
    "src/hpcmod/runs/cli/check.py": "PROGRAM",  # made by away_from_here
    "src/hpcmod/doctor/survey.py": "_OURS",  # made by away_from_here
    "src/hpcmod/images/inspect/contents.py": "''",  # imports nothing, and Python 2 has no -I
    "src/hpcmod/notebooks/values/server.py": "'RUN_MODULE'",  # replaced by what away_from_here makes
}
"""What files pass after -c, with the reason why it imports nothing from there."""


def starts_of_python(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lists of words with `-c` or `-m`, without those for shells and options of our own commands."""
    for text in (node.value for node in nodes_of(path) if isinstance(node, ast.Constant)):
        if isinstance(text, str) and text.count("\n") > 3 and "import " in text and "sys.executable" in text:
            yield from starts_in(ast.walk(ast.parse(text)))
    yield from starts_in(nodes_of(path))


def starts_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, list[str]]]:
    for node in nodes:
        words = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
        at = next((at for at, word in enumerate(words) if getattr(word, "value", "") in ("-c", "-m")), None)
        if at is not None and getattr(words[at - 1], "value", "") not in ("sh", "bash"):
            yield node.lineno, [ast.unparse(word) for word in words]


def is_safe_start(path: Path, words: list[str]) -> bool:
    if "'-I'" in words:
        return True
    after = words[words.index("'-c'") + 1 :][:1] if "'-c'" in words else []
    return bool(after) and (after[0].startswith("away_from_here(") or SAFE_ARGUMENTS.get(name_of(path)) == after[0])


def test_no_python_that_we_start_imports_from_the_working_directory() -> None:
    starts = [(path, line, words) for path in SOURCES for line, words in starts_of_python(path)]
    starts = [one for one in starts if one[2][0] not in ("'-c'", "'-m'") or len(one[2]) > 2]  # not a pair of options
    assert len(starts) >= 8
    assert [f"{name_of(path)}:{line}: {words}" for path, line, words in starts if not is_safe_start(path, words)] == []
    assert away_from_here("").startswith(SAFE)


def test_no_python_of_the_run_scripts_imports_from_the_working_directory() -> None:
    unsafe, seen = [], 0
    for path in sorted((CHECKOUT / "runscripts").rglob("*")):
        text = path.read_text() if path.is_file() and path.suffix not in (".py", ".lua", ".tcl") else ""
        lines = text.splitlines()
        for number, line in enumerate(lines):
            for match in re.finditer(r"(?:python3?|\$REPLY|\$python)\"?((?: -\w)*) -([cm]) \S|_ray=\(-([cm]) ", line):
                seen += 1
                program = re.search(r"\$(_ray_\w+)", line)
                named = f"{program[1]}='" if program else ""
                start = text.partition(named)[2].lstrip("\n") if named else ""
                apart = lines[number - 1].startswith("cd / ")
                if not (" -I" in (match[1] or "") or start.startswith(SAFE) or apart or line.startswith("#")):
                    unsafe.append(f"{path.name}:{number + 1}: {line.strip()}")
    assert seen >= 7
    assert unsafe == []


def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit_of(dotted: str) -> str:
    """Return the node of a module in the import graph: its sub-package, or the module itself if it is in none.

    For example, hpcmod.images.web.client is part of hpcmod.images.web, but hpcmod.images.cache is a node of its own.
    """
    first = dotted.split(".")[:3]
    is_sub_package = len(first) == 3 and PACKAGE.joinpath(*first[1:]).is_dir()
    return ".".join(first) if is_sub_package else dotted


def units_imported() -> dict[str, set[str]]:
    """Return the nodes of the import graph of src/hpcmod, each with those that it imports."""
    modules = {module_name(path) for path in SOURCES if EASYBLOCKS not in path.parents}
    found: dict[str, set[str]] = {unit_of(module): set() for module in modules}
    for path in SOURCES:
        if EASYBLOCKS in path.parents:
            continue
        for _, dotted in imports_of(path):
            imported = dotted if dotted in modules else dotted.rpartition(".")[0]
            if imported in modules:
                found[unit_of(module_name(path))].add(unit_of(imported))
    return {unit: imported - {unit} for unit, imported in found.items()}


def test_no_sub_package_takes_part_in_an_import_cycle() -> None:
    try:
        graphlib.TopologicalSorter(units_imported()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' <- '.join(error.args[1])}", pytrace=False)


def test_nothing_is_checked_with_assert_which_eb_skips() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}" for path in SOURCES for node in nodes_of(path) if isinstance(node, ast.Assert)
    ]
    assert not found, "\n".join(found)


def test_only_the_command_line_prints_and_exits() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}: {ast.unparse(node.func)}"
        for path in SOURCES
        if "cli" not in places_of(path)
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "exit", "quit", "sys.exit", "os._exit")
    ]
    assert not found, "\n".join(found)


def test_the_command_line_prints_through_cli_output_which_cleans_control_characters() -> None:
    past = ("click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write", "click.echo_via_pager")
    found = [
        f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}"
        for path in SOURCES
        if "cli" in places_of(path) and path.name != "output.py"
        for node in nodes_of(path)
        if (isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) in past)
        or (isinstance(node, ast.ImportFrom) and any(f"{node.module}.{alias.name}" in past for alias in node.names))
    ]
    assert not found, "\n".join(found)


def test_every_file_says_in_its_first_line_what_it_is_for() -> None:
    firsts = {name_of(path): (ast.get_docstring(parse(path)) or "").partition("\n")[0] for path in SOURCES}
    assert {name: first for name, first in firsts.items() if len(first.split()) < 3 or len(first) > 120} == {}


def test_no_two_files_say_the_same() -> None:
    firsts = [(ast.get_docstring(parse(path)) or "").splitlines()[0] for path in SOURCES]
    assert sorted(set(firsts)) == sorted(firsts)


@pytest.mark.parametrize("name", ["easyconfigs", "easyblocks", "runscripts"])
def test_folders_that_land_next_to_easybuilds_own_have_no_init_file(name: str) -> None:
    assert (CHECKOUT / name).is_dir()
    assert list((CHECKOUT / name).rglob("__init__.py")) == []


@pytest.mark.parametrize("word", ["utils", "helpers", "manager"])
def test_no_file_has_a_name_that_says_nothing(word: str) -> None:
    assert [name_of(path) for path in SOURCES if word in path.stem] == []


def test_no_line_of_code_names_a_machine() -> None:
    names = {name for name in site_profiles() if not name.startswith("generic")}
    rooms = [PACKAGE, EASYBLOCKS, CHECKOUT / "runscripts"]
    sources = [path for room in rooms for path in room.rglob("*.py")]
    assert {"lumi", "frontier"} < names and len(sources) > 500
    named = [
        f"{path.name}:{node.lineno}"
        for path in sources
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and str(node.value).lower() in names
    ]
    templates = [path for room in rooms for path in room.rglob("*.j2")]
    quoted = [path.name for path in templates for name in names if f"'{name}" in path.read_text("utf-8")]
    assert named + quoted == []


def test_the_architecture_page_names_every_room() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert [room for room in ROOMS if f"`{room}/`" not in text] == []


def paths_named(text: str) -> list[str]:
    """Return the paths in backquotes: words with a slash or the suffix of source files."""
    return [word for word in re.findall(r"`([^`\s]+)`", text) if "/" in word or word.endswith(".py")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_on_a_page_of_the_architecture_exists(page: Path) -> None:
    named = paths_named(page.read_text(encoding="utf-8"))
    missing = [path for path in named if not (PACKAGE / path).exists() and not (CHECKOUT / path).exists()]
    assert named
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_function_on_a_page_of_the_architecture_is_in_the_file_that_it_says(page: Path) -> None:
    named = re.findall(r"`(\w+)`\s+in\s+`([^`]+\.py)`", page.read_text(encoding="utf-8"))
    assert len(named) >= 8
    assert [f"{name} in {path}" for name, path in named if name not in names_defined_in(path)] == []


def names_defined_in(path: str) -> set[str]:
    file = PACKAGE / path if (PACKAGE / path).exists() else CHECKOUT / path
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(parse(file)) if isinstance(node, kinds)}


SHARED_PLACES = ("images", "modules", "compat", "catalogue", "packages", "building", "notebooks", "importing")
"""Rooms that work in directories that others can write to: fs/ opens, writes and removes files for them."""

PAST_FS = {
    "modules/easyconfigs/files.py": "reads easyconfigs that its user names",
    "compat/host_stack.py": "reads libraries of the host",
    "compat/recorded_fit.py": "reads the easyconfig of an installation",
    "modules/verify.py": "reads a modulefile",
    "building/image.py": "makes the directory of the output, and a log beside it",
    "building/context.py": "fills a build's workspace",
    "packages/bake/writing.py": "creates a file within a Scratch",
    "catalogue/bundle.py": "creates files within a Scratch, and the output directory",
    "images/cache.py": "makes the cache's own directory",
    "images/convert.py": "creates and removes a file within a Scratch",
    "building/engines/buildah.py": "fills a build's workspace",
    "building/engines/workspace.py": "makes and removes a build's workspace, whose owner it checks",
    "building/engines/probe.py": "fills a build's workspace",
    "images/acquire/fetch.py": "writes a file and its note within a Scratch",
    "compat/inspect/files.py": "reads what a container would see of the host, as its programs would",
    "building/shipped.py": "reads the recipes that come with hpcmod",
    "building/ingredients.py": "makes the directory of downloads",
    "notebooks/kernels.py": "makes the directory of the user's own kernels, reached through any links",
    "images/acquire/obtain.py": "removes a file within a Scratch",
    "images/registry.py": "moves a blob within a Scratch",
    "images/settings.py": "makes the cache's own directory for a group",
    "images/sif/labels.py": "changes a file within a Scratch",
    "images/trust/sif_signature.py": "makes a key ring in the user's own temporary directory",
    "modules/eb.py": "reads an exit code from a temporary directory of this run",
    "packages/conda/linking.py": "fills a Scratch",
    "packages/environment.py": "fills a Scratch",
    "packages/conda/solving.py": "fills a Scratch",
    "compat/install_netstack.py": "reads libraries of the host, fills a Scratch",
    "images/squashfs/pack.py": "fills a new directory of its caller",
    "packages/building.py": "fills a Scratch",
    "packages/editing.py": "fills a Scratch",
    "packages/baking.py": "makes the directory of the output",
    "packages/shipped.py": "copies a file of its Scratch to a new one in an opened directory",
    "packages/sets.py": "makes the directory of a set, for which its user names the place",
    "modules/remove.py": "removes modulefiles and empty directories of the user's own installation",
    "modules/user_layer.py": "makes a virtual environment in the user's own directory",
    "catalogue/admin/move.py": "fills a Scratch",
    "catalogue/visible/documentation.py": "fills a Scratch",
    "importing/writing.py": "makes the output directory",
    "catalogue/records/sharing.py": "makes the catalogue's own directory",
    "catalogue/publishing/staged.py": "fills the publisher's private directory",
    "modules/placed.py": "reads a private directory, copies into a Scratch",
    "modules/shared_prefix.py": "reads a private directory",
    "catalogue/publishing/terms.py": "makes the private directory of the licences that a user accepted",
}
"""Files of these rooms that use the file system in other ways, each with what they do."""

TOUCHING = {
    "os": ("open", "chmod", "replace", "rename", "remove", "unlink", "mkdir", "makedirs", "rmdir", "link", "symlink"),
    "shutil": ("rmtree", "copy", "copy2", "copyfile", "copytree", "move"),
    "tempfile": ("TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "mkdtemp", "mkstemp"),
}
METHODS = {
    *("write_text", "write_bytes", "read_text", "chmod", "unlink", "rename", "rmdir", "mkdir", "touch"),
    *("symlink_to", "hardlink_to"),
}


def touches_of(path: Path) -> Iterator[str]:
    """Yield each call in a file that opens, creates, changes or removes a path, as line and function."""
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open":
            yield f"{name_of(path)}:{node.lineno} {called.id}"
        elif isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else ""
            has_mode = bool(node.args) and isinstance(node.args[0], ast.Constant) and called.attr == "open"
            in_tree = isinstance(called.value, ast.Attribute) and called.value.attr == "tree"
            if called.attr in TOUCHING.get(owner, ()) or (owner not in TOUCHING and has_mode):
                yield f"{name_of(path)}:{node.lineno} {owner}.{called.attr}"
            elif called.attr in METHODS and owner not in (*TOUCHING, "tree") and not in_tree:
                yield f"{name_of(path)}:{node.lineno} .{called.attr}"


def test_shared_directories_are_touched_through_fs_alone() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): list(touches_of(path))
        for room in SHARED_PLACES
        if room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        if "cli" not in places_of(path)
    }
    assert [touch for name, touches in found.items() if name not in PAST_FS for touch in touches] == []
    of_rooms = [name for name in PAST_FS if name.partition("/")[0] in ROOMS]
    assert [name for name in of_rooms if not found.get(name)] == []  # entries that are no longer needed
