from __future__ import annotations

import pytest

from hpcmod.machine.values.sources import ProfileSource, list_entries

PROFILE = """# A machine [docs]
name = "x"
tried = "rendered only"

[sources]
docs = "a/b#1 2026-01-01"

[binds]
# [docs] both. [env]
required = ["/a"]
optional = [
    "/b",  # [mpi] of the host
]

[binds.why]
"/b" = "MPI"

[nodes."gpu"]
# [docs]

# Not documented.
# [cores] half of them
cores = 8
gpus = []
memory_gib = 2  # [ours]

slurm = "24.11"
"""


def test_a_source_is_a_file_at_a_commit_with_a_date() -> None:
    source = ProfileSource.parse("NVIDIA/nccl@0123456789abcdef0123:docs/a b.md 2026-02-01".replace(" b", "-b"))
    assert source[1:] == ("2026-02-01", "NVIDIA/nccl", "0123456789ab", "docs/a-b.md", "")
    assert source.address == "https://github.com/NVIDIA/nccl/blob/0123456789ab/docs/a-b.md"
    assert str(ProfileSource.parse(str(source))) == str(source)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("NVIDIA/nccl#12 2026-02-01", "https://github.com/NVIDIA/nccl/issues/12"),
        ("https://docs.org/a?p=1 2026-02-01", "https://docs.org/a?p=1"),
    ],
)
def test_a_source_may_be_an_issue_or_a_page(text: str, address: str) -> None:
    assert ProfileSource.parse(text).address == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b#1",
        "a/b 2026-02-01",
        "a/b@0123456789ab 2026-02-01",
        "a/b@0123456:c.md 2026-02-01",
        "a/b@main:c.md 2026-02-01",
        "http://docs.org 2026-02-01",
        "https://docs.org February 2026",
    ],
)
def test_any_other_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="OWNER/NAME@COMMIT:PATH"):
        ProfileSource.parse(text)


def test_each_value_has_the_tags_of_the_comment_above_it_and_of_those_behind() -> None:
    values = [entry for entry in list_entries(PROFILE) if entry.says_something]
    assert [(entry.key, entry.line, entry.tags) for entry in values] == [
        ("binds.required", 10, ("docs", "env")),
        ("binds.optional", 11, ("docs", "env", "mpi")),
        ("nodes.gpu.cores", 23, ("cores",)),
        ("nodes.gpu.memory_gib", 25, ("cores", "ours")),
        ("nodes.gpu.slurm", 27, ()),
    ]


def test_names_tables_and_empty_lists_say_nothing_about_a_machine() -> None:
    assert [entry.key for entry in list_entries(PROFILE) if not entry.says_something] == [
        "",
        "name",
        "tried",
        "sources",
        "sources.docs",
        "binds",
        "binds.why",
        "binds.why./b",
        "nodes.gpu",
        "nodes.gpu.gpus",
    ]
