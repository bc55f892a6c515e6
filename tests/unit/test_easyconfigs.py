"""What EasyBuild's tests and our own rules require of every easyconfig, checked in its source."""

from __future__ import annotations

import ast
import re
import stat
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from hpcmod.core.values.reference import ImageReference

EASYCONFIGS = Path(__file__).resolve().parents[2] / "easyconfigs"
EASYBLOCKS = EASYCONFIGS.parent / "easyblocks"
FILES = sorted(EASYCONFIGS.rglob("*.eb"))
CONSTANTS = {"SYSTEM": {"name": "system", "version": "system"}}
OF_A_MACHINE = re.compile(r"\b(NCCL|RCCL|FI|MIOPEN|SLURM|SINGULARITY|APPTAINER|ROCR|CUDA|HIP|MPICH)_[A-Z_]+")
SHELL = re.compile(r"postinstallcmds|preinstallopts|prebuildopts|modluafooter|modtclfooter|modextravars|[`&|]|\$\(|#!/")

SOURCE = re.compile(r"^# source:(?: |\n# )(https://\S+)$", re.MULTILINE)
"""The public document that contains the tag, the digest or the file name of the image."""


def each(rule: Callable[[Path], None]) -> Callable[[], None]:
    """Apply a rule to every easyconfig in one test: one test per pair would take longer than the rules themselves."""

    def test() -> None:
        broken = {}
        for path in FILES:
            try:
                rule(path)
            except AssertionError as err:
                broken[path.name] = str(err).partition("\n")[0] or "rule broken"
        assert broken == {}

    test.__name__ = rule.__name__
    return test


@cache
def read(path: Path) -> dict[str, Any]:
    """Return the parameters of an easyconfig, in the order in which they are set."""
    values: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        assert isinstance(node, ast.Assign), f"{path.name}:{node.lineno}: not an assignment"
        (target,) = node.targets
        assert isinstance(target, ast.Name)
        values[target.id] = value_of(node.value)
    return values


def value_of(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return CONSTANTS[node.id]
    return ast.literal_eval(node)


def is_built(values: dict[str, Any]) -> bool:
    """Return whether the image is built from a recipe, and cannot be downloaded."""
    return bool(values["easyblock"] == "ContainerBuild")


def test_there_are_easyconfigs() -> None:
    assert len(FILES) >= 80


@each
def test_it_has_at_most_25_lines_of_at_most_120_columns(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 25
    assert [line for line in lines if len(line) > 120 or line != line.rstrip()] == []


@each
def test_it_is_named_after_name_version_and_suffix_below_its_letter(path: Path) -> None:
    values = read(path)
    assert path.name == f"{values['name']}-{values['version']}{values.get('versionsuffix', '')}.eb"
    letter = values["name"][0].lower()
    assert path.parent == EASYCONFIGS / (letter if letter.isalpha() else "0") / values["name"]


@each
def test_it_is_as_easybuild_and_its_tests_of_easyconfigs_want_it(path: Path) -> None:
    values = read(path)
    assert (EASYBLOCKS / f"{values['easyblock'].lower()}.py").is_file()
    assert values["toolchain"] == CONSTANTS["SYSTEM"]
    assert list(values)[-1] == "moduleclass", "eb --inject-checksums loses sources that come last"
    assert values["moduleclass"] not in ("", "base") and values["description"].strip()
    assert values["homepage"].startswith("https://") and "http://" not in path.read_text(encoding="utf-8")
    assert not re.search(r"\bpython (-c|-m) ", path.read_text(encoding="utf-8")), "packages of the user: python -s -c"


@each
def test_every_source_has_a_checksum_or_a_comment_that_says_why_not(path: Path) -> None:
    values = read(path)
    if is_built(values):
        return  # the recipe's lock file contains the checksums
    if "image" in values and ImageReference.parse(values["image"]).pinned:
        assert "checksums" not in values, "the digest counts as a checksum"
        return
    assert ("image" in values) != ("sources" in values)
    assert len(values["checksums"]) == len(values.get("sources", ["the image"]))
    for checksum in values["checksums"]:
        if checksum is None:
            assert re.search(r"^# \S.+\n^checksums = ", path.read_text(encoding="utf-8"), re.MULTILINE)
        else:
            assert re.fullmatch("[0-9a-f]{64}", checksum)


@each
def test_it_says_where_the_image_comes_from(path: Path) -> None:
    values = read(path)
    recipe = EASYCONFIGS.parent / "recipes" / f"{values.get('recipe')}.toml"
    if is_built(values):
        assert recipe.is_file()
    else:
        assert "image" in values or values.get("source_urls") or values.get("download_instructions")


@each
def test_its_image_is_named_with_its_registry_and_has_no_moving_tag(path: Path) -> None:
    image = read(path).get("image")
    if image:
        reference = ImageReference.parse(image)
        assert reference.kind == "docker"
        assert reference.tag not in ("", "latest", "main", "nightly")


@each
def test_it_names_the_public_document_with_the_tag_of_its_image(path: Path) -> None:
    if "image" in read(path):
        assert SOURCE.search(path.read_text(encoding="utf-8"))


@each
def test_it_names_the_licence_of_the_software(path: Path) -> None:
    values = read(path)
    assert is_built(values) or values["software_license_urls"]
    assert all(url.startswith("https://") for url in values.get("software_license_urls", []))


@each
def test_every_command_that_is_checked_at_installation_is_wrapped(path: Path) -> None:
    values = read(path)
    files = values["sanity_check_paths"]["files"]
    wrapped = values.get("wrapped_commands") or ["python", "pip", "start-shell"]  # the image's common commands
    assert {name[4:] for name in files if name.startswith("bin/")} <= set(wrapped)
    assert {command.split()[0] for command in values.get("sanity_check_commands", [])} <= set(wrapped)
    assert values["enhance_sanity_check"] is True, "else the easyblock's own checks are lost"
    assert set(values["sanity_check_paths"]) == {"files", "dirs"} and any(values["sanity_check_paths"].values())


@each
def test_it_holds_no_shell_no_bind_and_no_fact_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "bind_paths" not in read(path)
    assert [found[0] for found in OF_A_MACHINE.finditer(text)] == []
    code = "\n".join(line.partition("#")[0] for line in text.splitlines())
    assert [found[0] for found in SHELL.finditer(code)] == []


KNOWN = """
easyblock name version versionsuffix homepage description toolchain sources source_urls download_instructions checksums
image environment software_license_urls install_mode wrapped_commands site_profile sanity_check_paths
sanity_check_commands enhance_sanity_check moduleclass docurls citing usage examples
recipe mpi ofi components settings
"""


@each
def test_own_variables_are_marked_as_local(path: Path) -> None:
    assert [name for name in read(path) if name not in KNOWN.split() and not name.startswith(("local_", "_"))] == []


@each
def test_its_file_is_plain_text_that_no_one_can_execute(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) & 0o111 == 0
    data = path.read_bytes()
    assert data.endswith(b"\n") and not [word for word in (b"\r", b"\t", b"%(root)", b"$root") if word in data]


def test_no_two_easyconfigs_make_one_module() -> None:
    modules = [(values["name"], values["version"] + values.get("versionsuffix", "")) for values in map(read, FILES)]
    assert len(set(modules)) == len(modules)


def test_they_are_not_copies_of_each_other() -> None:
    """In LUMI's repository, 8 of 100 lines are distinct, and two versions have up to 98 in common."""
    texts = [[line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 1] for path in FILES]
    lines = [line for text in texts for line in text]
    assert len(set(lines)) / len(lines) >= 0.4
    shared = [len({*one} & {*other}) / max(len(one), len(other)) for one, other in combinations(texts, 2)]
    assert max(shared) < 0.9
    assert max(map(len, texts)) <= 20


def test_the_page_lists_every_easyconfig(golden: Callable[[Path, str], None]) -> None:
    golden(EASYCONFIGS.parent / "docs/reference/easyconfigs.md", render_list())


def render_list() -> str:
    """Return the page of the easyconfigs, by kind."""
    lines = [HEAD]
    values = [(path, read(path)) for path in FILES]
    for moduleclass, title in KINDS.items():
        rows = [_row(path, one) for path, one in values if one["moduleclass"] == moduleclass]
        lines += [f"\n## {title}\n", "| easyconfig | description | image | licence |", "|---|---|---|---|", *rows]
    assert {one["moduleclass"] for _, one in values} <= set(KINDS)
    return "\n".join(lines) + "\n"


HEAD = """# The shipped easyconfigs

Each of these easyconfigs [installs a container](../how-to/shipped-easyconfigs.md). An image marked as pinned has its
digest in the easyconfig. The source is the public document that has the tag or the name of the image. The licence is
that of the software; an image contains more."""
KINDS = {
    "ai": "Machine learning",
    "bio": "Biology",
    "chem": "Chemistry",
    "tools": "Notebooks and workflows",
    "lang": "Languages",
    "mpi": "MPI",
    "devel": "To build upon",
}


def _row(path: Path, values: dict[str, Any]) -> str:
    source = SOURCE.search(path.read_text(encoding="utf-8"))
    image = values.get("image") or next(iter(values.get("sources", [])), "built on your machine")
    shown = image.removeprefix("docker://").partition("@")[0]
    shown = shown.rpartition("/")[2] if "sources" in values else shown
    said = "".join((", pinned" if "@" in image else "", f" ([source]({source[1]}))" if source else ""))
    licences = ", ".join(f"[{_licence(url)}]({url})" for url in values["software_license_urls"])
    return f"| `{path.name}` | {values['description']} | {shown}{said} | {licences} |"


def _licence(url: str) -> str:
    """Return the SPDX identifier in an address, or the name of the site that has the text."""
    spdx = re.fullmatch(r"https://spdx\.org/licenses/(.+)\.html", url)
    return spdx[1] if spdx else "NVIDIA" if "nvidia" in url else "text"
