"""Parsing recorded outputs of GPU tools; their sources are in outputs/README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.machine.values.node_gpus import GpuState, parse_gpus

OUTPUTS = Path(__file__).parent / "outputs"
MIB = 1 << 20


def recorded(name: str) -> str:
    return (OUTPUTS / name).read_text(encoding="utf-8")


def only(**outputs: str) -> GpuState:
    (found,) = parse_gpus({name.replace("_", "-"): text for name, text in outputs.items()})
    return found


def test_every_recorded_output_has_a_source() -> None:
    listed = recorded("README.md")
    assert [
        path.name for path in OUTPUTS.iterdir() if path.name != "README.md" and f"`{path.name}`" not in listed
    ] == []


def test_csv_is_read_by_the_names_of_its_columns() -> None:
    gpu = only(nvidia_smi=recorded("nvidia-rtx2060.csv"))
    assert gpu == GpuState(
        index=0,
        name="GeForce RTX 2060",
        address="0000:09:00.0",
        driver="460.91.03",
        memory_total=5934 * MIB,
        memory_used=682 * MIB,
        use=20,
        temperature=36,
    )
    assert only(nvidia_smi=recorded("nvidia-clocks.csv")).clock == 1320


def test_the_mask_of_throttle_reasons_names_only_those_that_a_healthy_gpu_does_not_have() -> None:
    reasons = only(nvidia_smi=recorded("nvidia-mask.csv")).throttled
    assert reasons == (
        "hardware slowdown",
        "software thermal slowdown",
        "hardware thermal slowdown",
        "hardware power brake",
    )
    assert only(nvidia_smi="clocks_event_reasons.active\n0x0000000000000005\n").throttled == ()


def test_rocm_smi_reports_every_card_and_the_driver_of_all() -> None:
    found = parse_gpus({"rocm-smi": recorded("rocm-mi100.json")})
    assert [one.address for one in found] == ["0000:83:00.0", "0000:a3:00.0", "0000:c3:00.0", "0000:e3:00.0"]
    assert found[1] == GpuState(
        index=1,
        name="Arcturus GL-XL [Instinct MI100]",
        address="0000:a3:00.0",
        driver="6.3.6",
        memory_total=34342961152,
        memory_used=6750208,
        use=0,
        temperature=58,
        clock=300,
    )


def test_rocm_smi_of_other_releases_has_other_names_for_the_same() -> None:
    gpu = only(rocm_smi=recorded("rocm-780m.json"))
    assert (gpu.name, gpu.use, gpu.temperature, gpu.clock, gpu.driver) == ("Phoenix3", 19, 31, 800, "")
    assert only(rocm_smi=recorded("rocm-mi200.json")).name == "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2"


def test_amd_smi_prints_a_list_or_since_rocm_7_an_object_after_warnings() -> None:
    assert only(amd_smi=recorded("amd-w7700.json")).use == 42
    gpu = only(amd_smi=recorded("amd-rx7800.txt"))
    assert (gpu.index, gpu.name, gpu.address) == (0, "AMD Radeon RX 7800 XT", "0000:03:00.0")


def test_amd_smi_throttle_status_is_not_used_because_it_is_wrong_on_some_gpus() -> None:
    text = recorded("amd-w7700.json").replace('"usage": {', '"power": {"throttle_status": "THROTTLED"}, "usage": {')
    assert only(amd_smi=text).throttled is None


@pytest.mark.parametrize("tool", ["nvidia-smi", "rocm-smi", "amd-smi"])
@pytest.mark.parametrize("text", ["", "No devices were found\n", "{", "[1, null]", '{"card0": 1}'])
def test_other_output_gives_no_gpu(tool: str, text: str) -> None:
    assert parse_gpus({tool: text}) == ()
