from __future__ import annotations

from typing import Any

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.bind import Bind
from hpcmod.model.site import SCHEMA, Site, make_site, parse_profile

WHOLE = """
name = "x1"
description = "a machine"
extends = "generic"
[detect]
paths = ["/appl/x1"]
[images]
central = ["/appl/images", "/more/images"]
install_mode = "link"
[binds]
required = ["/opt/cray"]
optional = ["/scratch:/scratch:ro"]
[environment]
NCCL_SOCKET_IFNAME = "hsn"
[gpu]
visibility = ["ROCR_VISIBLE_DEVICES"]
per_rank = "all"
[caches]
node_local = "/local"
[module]
family = "containers"
"""


def site_of(*texts: str) -> Site:
    return make_site([parse_profile(text, "a.toml") for text in texts])


def test_a_profile_becomes_a_site_with_every_key() -> None:
    assert site_of(WHOLE) == Site(
        name="x1",
        description="a machine",
        detect_paths=("/appl/x1",),
        central=("/appl/images", "/more/images"),
        install_mode="link",
        binds=(Bind("/opt/cray", required=True), Bind("/scratch", "/scratch", "ro")),
        tunables=(("NCCL_SOCKET_IFNAME", "hsn"),),
        gpu_visibility=("ROCR_VISIBLE_DEVICES",),
        gpus_per_rank="all",
        node_local="/local",
        family="containers",
    )


def test_the_profile_of_these_tests_sets_every_key_there_is() -> None:
    assert set(parse_profile(WHOLE, "a.toml").values) == set(SCHEMA)


def test_a_name_is_enough() -> None:
    assert site_of('name = "x1"') == Site("x1")


def test_a_profile_says_what_it_extends_and_where_it_was_read() -> None:
    profile = parse_profile(WHOLE, "a.toml")
    assert (profile.name, profile.extends, profile.source) == ("x1", "generic", "a.toml")


def test_values_of_the_later_profile_replace_and_its_environment_adds() -> None:
    base = 'name = "base"\n[images]\ncentral = ["/a"]\ninstall_mode = "copy"\n[environment]\nA = "1"\nB = "2"\n'
    site = site_of(base, 'name = "top"\n[images]\ncentral = ["/b"]\n[environment]\nB = "3"\nC = "4"\n')
    assert (site.name, site.central, site.install_mode) == ("top", ("/b",), "copy")
    assert dict(site.tunables) == {"A": "1", "B": "3", "C": "4"}


def test_required_binds_come_before_optional_ones() -> None:
    site = site_of('name = "x"\n[binds]\noptional = ["/o"]\nrequired = ["/r"]\n')
    assert [bind.source for bind in site.binds] == ["/r", "/o"]


def test_an_empty_list_takes_away_what_the_base_gave() -> None:
    site = site_of('name = "a"\n[binds]\nrequired = ["/r"]\n', 'name = "b"\n[binds]\nrequired = []\n')
    assert site.binds == ()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param("[imagse]\ncentral = []", "imagse.central: unknown key, did you mean images.central?", id="typo"),
        pytest.param("zzz = 1", "zzz: unknown key", id="unknown"),
        pytest.param('images = "/x"', "images: unknown key", id="text for a table"),
        pytest.param("description = 3", "description: must be a text", id="number for a text"),
        pytest.param('description = ""', "description: must be a text that is not empty", id="empty text"),
        pytest.param('[images]\ncentral = "/x"', "images.central: must be a list of texts", id="text for a list"),
        pytest.param("[images]\ncentral = [3]", "images.central: must be a list of texts", id="numbers in a list"),
        pytest.param('[images]\ncentral = ["x"]', "images.central: must be an absolute path, found 'x'", id="relative"),
        pytest.param('[images]\ninstall_mode = "auto"', "must be one of copy, link, central, found 'auto'", id="auto"),
        pytest.param('[binds]\nrequired = ["x"]', "binds.required: bind path 'x'", id="relative bind"),
        pytest.param('[environment]\n"A B" = "x"', "environment: 'A B' is not the name", id="bad variable"),
        pytest.param("[environment]\nA = 3", "environment: must be a text", id="number for a variable"),
        pytest.param('[environment]\nA = "x\\ntouch pwned"', "environment: ", id="newline in a variable"),
        pytest.param('[images]\ncentral = ["/x\\ntouch pwned"]', "images.central: ", id="newline in a path"),
        pytest.param('[caches]\nnode_local = "/x\\ty"', "caches.node_local: ", id="tab in a path"),
        pytest.param('[binds]\noptional = ["/x\\u001by"]', "binds.optional: ", id="escape in a bind"),
        pytest.param('[gpu]\nvisibility = ["A-B"]', "gpu.visibility: 'A-B' is not the name", id="bad GPU variable"),
        pytest.param('[gpu]\nper_rank = "two"', "gpu.per_rank: must be one of one, all", id="per rank"),
        pytest.param(
            '[caches]\nnode_local = "tmp"', "caches.node_local: must be an absolute path", id="relative cache"
        ),
    ],
)
def test_a_fault_is_named_with_its_key(line: str, fault: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_profile(f'name = "x"\n{line}\n', "a.toml")
    assert fault in caught.value.message


def test_all_faults_of_a_file_are_told_together_with_its_name() -> None:
    with pytest.raises(BadInputError) as caught:
        parse_profile('x = 1\n[gpu]\nper_rank = "two"\n[caches]\nnode_local = "tmp"\n', "/etc/a.toml")
    assert "/etc/a.toml" in caught.value.message
    assert [line.split(":")[0].strip() for line in caught.value.message.splitlines()[1:]] == [
        "x",
        "gpu.per_rank",
        "caches.node_local",
        "name",
    ]


@pytest.mark.parametrize("text", ["name = ", "name = 'a'\nname = 'b'", "\0"])
def test_what_is_no_toml_is_refused_with_the_file(text: str) -> None:
    with pytest.raises(BadInputError, match=r"a\.toml is not valid TOML"):
        parse_profile(text, "a.toml")


@pytest.mark.parametrize("value", ["1", "[]", "true", "1979-05-27", '""', "{}", "{ a = 1 }"])
@pytest.mark.parametrize("key", sorted(SCHEMA))
def test_no_value_of_another_type_is_more_than_a_fault(key: str, value: Any) -> None:
    table, _, last = key.rpartition(".")
    name = "" if key == "name" else 'name = "x"\n'
    text = f"{name}[{table}]\n{last} = {value}\n" if table else f"{name}{last} = {value}\n"
    try:
        site_of(text)
    except BadInputError as err:
        assert key in err.message
    else:
        assert value in ("[]", "{}"), f"{key} = {value} was taken"
