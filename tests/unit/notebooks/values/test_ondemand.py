from __future__ import annotations

from typing import Any

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.machine import load_site
from hpcmod.notebooks.values.ondemand import list_choices, make_form


def form_of(site: str) -> Any:
    return make_form([("Lab/1.0", "/apps/Lab/1.0/in-environment")], "c", load_site(site, {}))


def test_the_choices_are_shares_of_nodes_with_the_options_of_hpcmod_job_and_the_longest_time_of_each_partition() -> (
    None
):
    choices = {choice.label: choice for choice in list_choices(load_site("lumi", {}))}
    assert list(choices) == [
        *(f"{name}: {size}" for name in ("small-g", "dev-g") for size in ("1 GPU, 7 cores", "2 GPUs, 14 cores",
                                                                          "4 GPUs, 28 cores", "8 GPUs, 56 cores")),
        *("standard-g: 8 GPUs, 56 cores", "small: 16 cores", "small: 128 cores", "standard: 128 cores"),
    ]  # fmt: skip
    dev = choices["dev-g: 2 GPUs, 14 cores"]
    common = "--nodes=1 --ntasks-per-node=1"
    assert dev.options == (
        f"--partition=dev-g {common} --cpus-per-task=14 --gpus-per-node=2 --mem=120G --network=single_node_vni"
    )
    assert (dev.hours, choices["standard: 128 cores"].hours) == (3, 48)
    assert not [label for label in choices if label.startswith("debug")]  # half an hour: the form counts in hours


@pytest.mark.parametrize(
    ("site", "fields", "commands"),
    [
        ("lumi", [], ""),
        ("marenostrum5", ["bc_queue", "sbatch_qos"], "module load singularity || exit"),
        ("frontier", [], "[[ ${SLURM_EXPORT_ENV-} != NONE ]] || unset SLURM_EXPORT_ENV"),
        ("generic", ["bc_queue"], ""),
    ],
)
def test_the_form_asks_for_what_the_machine_requires(site: str, fields: list[str], commands: str) -> None:
    form = form_of(site)
    assert form["form"] == ["container", "node", "bc_num_hours", "bc_account", *fields, "directory", "commands"]
    assert form["attributes"]["commands"] == commands
    assert form["attributes"]["bc_account"]["required"] == (site != "generic")
    if "sbatch_qos" in fields:
        assert form["attributes"]["sbatch_qos"] == {"label": "Qos", "required": True}
        assert "qos" not in str(form["attributes"]["node"])


def test_the_time_is_limited_only_where_limits_are_known() -> None:
    limited, free = form_of("frontier")["attributes"], form_of("generic")["attributes"]
    assert limited["bc_num_hours"] == {"value": 1, "max": 24}
    assert [option[2] for option in limited["node"]["options"]] == [{"data-max-bc-num-hours": n} for n in (2, 24)]
    assert (free["bc_num_hours"], free["node"]["options"][0][2]) == ({"value": 1}, {})


def test_a_machine_without_slurm_is_refused() -> None:
    with pytest.raises(LackingError, match="scheduler is PBS"):
        form_of("aurora")
