"""Read what nvidia-smi, rocm-smi and amd-smi print about the GPUs of a node.

Recorded outputs, with their sources, are in tests/unit/machine/values/outputs. What a tool does not say is None.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_THROTTLING = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of clocks_throttle_reasons that a healthy GPU does not have (nvml.h, nvmlClocksEventReasons).

Idle, application clocks, power cap and sync boost are normal in a well-run machine.
"""

_MIB = 1 << 20


@dataclass(frozen=True)
class GpuState:
    """State of one GPU, as its vendor's tool reports it."""

    index: int
    name: str = ""
    address: str = ""
    """PCI address in lower case, e.g. 0000:c9:00.0; empty if not given."""
    driver: str = ""
    memory_total: int | None = None
    """Bytes."""
    memory_used: int | None = None
    use: int | None = None
    """Percent."""
    temperature: int | None = None
    """Degrees Celsius; the hottest sensor of the chip itself."""
    clock: int | None = None
    """MHz."""
    max_clock: int | None = None
    uncorrected: int | None = None
    """ECC errors since the driver was loaded that could not be corrected."""
    throttled: tuple[str, ...] | None = None
    """Reasons why its clock is low that a healthy GPU does not have."""


def parse_gpus(outputs: Mapping[str, str]) -> tuple[GpuState, ...]:
    """Return the GPUs in the outputs of the vendors' tools, by name of the tool; empty if nothing can be read."""
    if outputs.get("nvidia-smi"):
        return tuple(_parse_nvidia_csv(outputs["nvidia-smi"]))
    if outputs.get("amd-smi"):
        return tuple(_parse_amd_smi(outputs["amd-smi"]))
    return tuple(_parse_rocm_smi(outputs.get("rocm-smi", "")))


def _parse_nvidia_csv(text: str) -> Iterator[GpuState]:
    """Yield the GPUs of `nvidia-smi --query-gpu=... --format=csv`, in any order of columns."""
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error:
        return
    heads = [head.partition(" [")[0].strip() for head in rows[0]] if rows else []
    for number, row in enumerate(rows[1:]):
        values = {head: value.strip() for head, value in zip(heads, row)}
        index = _number(values.get("index"))
        yield GpuState(
            index=number if index is None else index,
            name=values.get("name", ""),
            address=_address(values.get("pci.bus_id", "")),
            driver=values.get("driver_version", ""),
            memory_total=_bytes(values.get("memory.total")),
            memory_used=_bytes(values.get("memory.used")),
            use=_number(values.get("utilization.gpu")),
            temperature=_number(values.get("temperature.gpu")),
            clock=_number(values.get("clocks.sm", values.get("clocks.current.sm"))),
            max_clock=_number(values.get("clocks.max.sm")),
            uncorrected=_number(values.get("ecc.errors.uncorrected.volatile.total")),
            throttled=_parse_mask(
                values.get("clocks_throttle_reasons.active", values.get("clocks_event_reasons.active"))
            ),
        )


def _parse_mask(text: str | None) -> tuple[str, ...] | None:
    if not text or not re.fullmatch(r"0x[0-9A-Fa-f]+", text):
        return None
    mask = int(text, 16)
    return tuple(reason for bit, reason in _THROTTLING.items() if mask & bit)


def _parse_rocm_smi(text: str) -> Iterator[GpuState]:
    """Yield the GPUs of `rocm-smi ... --json`; names of values changed between releases of ROCm."""
    values = _parse_json(text)
    if not isinstance(values, dict):
        return
    system = values.get("system")
    driver = str(system.get("Driver version", "")) if isinstance(system, dict) else ""
    for name, card in values.items():
        number = re.fullmatch(r"card(\d+)", str(name))
        if not number or not isinstance(card, dict):
            continue
        yield GpuState(
            index=int(number[1]),
            name=_first(card, "Card Series", "Card series", "Device Name"),
            address=_address(_first(card, "PCI Bus")),
            driver=driver,
            memory_total=_number(_first(card, "VRAM Total Memory (B)")),
            memory_used=_number(_first(card, "VRAM Total Used Memory (B)")),
            use=_number(_first(card, "GPU use (%)")),
            temperature=_number(_first(card, "Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")),
            clock=_number(_first(card, "sclk clock speed:").strip("()")),
        )


def _parse_amd_smi(text: str) -> Iterator[GpuState]:
    """Yield the GPUs of `amd-smi metric --json`: a list, since ROCm 7 an object with the list in gpu_data.

    Its throttle_status is not used: on some GPUs it is THROTTLED also when they idle (ROCm/rocm-systems issue 11781).
    """
    values = _parse_json(text)
    listed = values.get("gpu_data") if isinstance(values, dict) else values
    for number, gpu in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(gpu, dict):
            continue
        index = gpu.get("gpu")
        yield GpuState(
            index=index if isinstance(index, int) else number,
            name=str(_inside(gpu, "asic", "market_name") or ""),
            address=_address(str(_inside(gpu, "bus", "bdf") or "")),
            use=_value_of(_inside(gpu, "usage", "gfx_activity")),
            temperature=_value_of(_inside(gpu, "temperature", "hotspot")),
            clock=_value_of(_inside(gpu, "clock", "gfx_0", "clk")),
            max_clock=_value_of(_inside(gpu, "clock", "gfx_0", "max_clk")) or None,
            uncorrected=_value_of(_inside(gpu, "ecc", "total_uncorrectable_count")),
        )


def _parse_json(text: str) -> Any:
    """Parse JSON, before which the tools may print warnings; None if it is not valid."""
    start = re.search(r"^[{\[]", text, re.MULTILINE)
    try:
        return json.loads(text[start.start() :]) if start else None
    except (ValueError, RecursionError):
        return None


def _inside(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _value_of(value: Any) -> int | None:
    """Return a number that is given as such, or with its unit: {"value": 42, "unit": "%"}."""
    return _number(str(value.get("value") if isinstance(value, dict) else value))


def _first(card: Mapping[str, Any], *names: str) -> str:
    return next((str(card[name]) for name in names if name in card), "")


def _number(text: str | None) -> int | None:
    """Return the number at the beginning of a text such as `1410 MHz`, rounded down; None if there is none."""
    match = re.match(r"\s*(\d{1,18})(?:\.\d+)?(?![\w.])", text or "") or re.match(r"\s*(\d{1,18})(?=Mhz\b)", text or "")
    return int(match[1]) if match else None


def _bytes(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else number * _MIB


def _address(text: str) -> str:
    """Return a PCI address as Linux writes it: nvidia-smi has eight digits for the domain."""
    match = re.fullmatch(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])", text.strip())
    return f"{int(match[1], 16):04x}:{match[2].lower()}" if match else ""
