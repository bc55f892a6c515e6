from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.errors import BadInputError
from hpcmod.importing.outcome import ImportedEasyconfig, Refused
from hpcmod.importing.singularity_compose import convert_instance, import_singularity_compose
from tests.foreign_recipes import SINGULARITY_COMPOSE, write_tree

PATH = Path("/project/singularity-compose.yml")


def test_the_instance_becomes_an_easyconfig_called_like_it() -> None:
    one = convert_instance(SINGULARITY_COMPOSE, PATH).easyconfig
    assert (one.module, one.image) == ("web/1.2", "docker://docker.io/org/nginx:1.2")
    assert one.bind_paths == ("/project/nginx.conf:/etc/nginx/conf.d/default.conf:ro", "/store")


def test_all_that_is_lost_or_changed_is_named() -> None:
    one = convert_instance(SINGULARITY_COMPOSE, PATH)
    lost, changed = "\n".join(one.left_out), "\n".join(one.changed)
    for text in (
        *("singularity instance start", "fakeroot: singularity exec --fakeroot $SIF", "start.args -x y", "key run"),
        *("key exec", "key post", "key volumes_from", "key colour"),
    ):
        assert text in lost
    for text in ("ports: ", "network: ", "start.options nv: the site profile", "volume ./nginx.conf"):
        assert text in changed


def test_files_are_found_by_their_name_and_an_instance_is_chosen(tmp_path: Path) -> None:
    two = SINGULARITY_COMPOSE.replace("instances:\n", "instances:\n  db: {image: 'docker://docker.io/redis:7'}\n")
    write_tree(tmp_path, {"a/singularity-compose.yml": two, "a/compose.yml": "x"})
    (refused,) = import_singularity_compose([tmp_path], instance=None)
    assert isinstance(refused, Refused)
    assert "several instances: db, web; choose one with --instance NAME" in refused.reason
    (one,) = import_singularity_compose([tmp_path], instance="db")
    assert isinstance(one, ImportedEasyconfig)
    assert one.easyconfig.module == "db/7"


@pytest.mark.parametrize(
    "text",
    [
        *("", "instances: {}", "instances: {a: }", "instances: {a: {build: {context: .}}}", "services: {a: b}"),
        *("instances: {a: {image: x.sif}}", "instances: {a: {image: 'docker://x'}}", "instances: {a: {image: [x]}}"),
        "instances: {a: {name: [x], image: 'docker://x:1'}}",
    ],
)
def test_what_is_no_instance_with_an_image_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        convert_instance(text, PATH)
