"""Micro-architectures that an image is built for, and those of a machine's GPUs.

A target is a word: gfx90a as LLVM names AMD's GPUs, sm_90 (machine code) and compute_90 (PTX) as nvcc names NVIDIA's,
and for processors any word that the label of an image has, such as zen3 or x86-64-v3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.core.values.strict_json import Texts

TARGETS_LABEL = "org.hpcmod.targets"
"""Label of an image that lists its targets, separated by spaces, commas or semicolons."""

_CUDA_LIST, _ROCM_LIST = "TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH"
"""Variables that list what PyTorch and its extensions are compiled for; images keep them from their build."""

_WORD = re.compile(r"[a-z][a-z0-9_.-]{1,31}")
_AMD = re.compile(r"gfx[0-9a-f]{3,5}|gfx[0-9-]+-generic")
_CUDA = re.compile(r"(sm|compute)_([0-9]{1,2})([0-9])([af]?)")
_CAPABILITY = re.compile(r"([0-9]{1,2})\.([0-9])([af]?)(\+ptx)?")
GPU_TARGET = "gfx[0-9a-f]{3,5}|sm_[0-9]{2,3}"
"""Pattern of the target of a machine's GPU: gfx90a, sm_90."""

_CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "sm_70": ("V100",),
    "sm_80": ("A100", "A30"),
    "sm_86": ("A40", "A10", "A16", "A2"),
    "sm_89": ("L4", "L40", "L40S"),
    "sm_90": ("GH200", "H200", "H100"),
    "sm_100": ("GB200", "B200"),
    "sm_103": ("GB300", "B300"),
    "sm_121": ("GB10",),
}
"""GPUs of data centres: developer.nvidia.com/cuda-gpus and /cuda-legacy-gpus (found in November 2026)."""
_BY_MODEL = {model: target for target, models in _CAPABILITIES.items() for model in models}


def find_targets(labels: Texts, environment: Texts) -> tuple[str, ...]:
    """Return the targets of an image, sorted; empty if not known.

    The label comes first; if it names no GPU, the variables of PyTorch's build add theirs. A list with a word that is
    not understood counts as unknown, because the image may run on more than the others say.

    `labels`, `environment`: Those of the image, unchecked.
    """
    said = _parse_list(dict(labels).get(TARGETS_LABEL, ""), _is_target)
    if select_gpu_targets(said):
        return tuple(sorted(set(said)))
    variables = dict(environment)
    amd = _parse_list(variables.get(_ROCM_LIST, ""), _AMD.fullmatch)
    return tuple(sorted({*said, *amd, *_parse_capabilities(variables.get(_CUDA_LIST, ""))}))


def _split(text: str) -> list[str]:
    return [word for word in re.split(r"[\s;,]+", text.lower()) if word]


def _parse_list(text: str, fits: Callable[[str], object]) -> tuple[str, ...]:
    """Parse gfx90a;gfx942:xnack-, where what follows a colon does not change which GPU it is."""
    words = [word.partition(":")[0] for word in _split(text)]
    return tuple(words) if all(map(fits, words)) else ()


def _is_target(word: str) -> bool:
    if word.startswith("gfx"):
        return _AMD.fullmatch(word) is not None
    if word.startswith(("sm_", "compute_")):
        return _CUDA.fullmatch(word) is not None
    return _WORD.fullmatch(word) is not None


def _parse_capabilities(text: str) -> tuple[str, ...]:
    """Parse 8.0 9.0+PTX; names of architectures such as Hopper, which PyTorch also accepts, count as unknown."""
    found = [_CAPABILITY.fullmatch(word) for word in _split(text)]
    targets = []
    for match in found:
        if match is None:
            return ()
        number = "".join(match.group(1, 2, 3))
        targets += [f"sm_{number}", *([f"compute_{number}"] if match[4] else [])]
    return tuple(targets)


def select_gpu_targets(targets: Iterable[str]) -> tuple[str, ...]:
    """Return the targets that are GPUs, in the same order."""
    return tuple(word for word in targets if word.startswith(("gfx", "sm_", "compute_")))


def runs_on(targets: Iterable[str], gpus: Sequence[str]) -> bool | None:
    """Return whether an image has code for one of these GPUs; None if that is not known.

    Machine code of AMD runs on its own target, that of NVIDIA on GPUs with the same major and no smaller minor number,
    and PTX on all that are not older; with the suffix a, both run on that GPU only.

    `targets`: Of the image; those of processors are ignored.
    `gpus`: Targets of the GPUs; empty if not known.
    """
    code = select_gpu_targets(targets)
    if not code or not gpus:
        return None
    if any(_runs(word, gpu) for word in code for gpu in gpus):
        return True
    return None if any(word.endswith("-generic") for word in code) else False


def _runs(word: str, gpu: str) -> bool:
    code, here = _CUDA.fullmatch(word), _CUDA.fullmatch(gpu)
    if code is None or here is None:
        return word == gpu
    built, number = (int(code[2]), int(code[3])), (int(here[2]), int(here[3]))
    if code[4] == "a":
        return built == number
    if code[1] == "compute" and not code[4]:
        return built <= number
    return built[0] == number[0] and built <= number


def parse_kfd_node(text: str) -> str | None:
    """Return the target of a node of AMD's driver, from its properties; empty if not known, None if it is no GPU."""
    values = dict(pair for pair in (line.split() for line in text.splitlines()) if len(pair) == 2)
    if values.get("simd_count", "0") == "0":
        return None
    version = values.get("gfx_target_version", "")
    if not re.fullmatch(r"[1-9][0-9]{4,5}", version):
        return ""
    return f"gfx{int(version[:-4])}{int(version[-4:-2]):x}{int(version[-2:]):x}"


def parse_nvidia_model(text: str) -> str:
    """Return the target of a GPU from the file `information` of NVIDIA's driver; empty if the model is not known."""
    model = re.search(r"^Model:(.*)$", text, re.MULTILINE)
    words = re.split(r"[\s-]+", model[1]) if model else []
    return next((_BY_MODEL[word] for word in words if word in _BY_MODEL), "")
