"""The rules about CUDA, ROCm and the drivers of GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmod.model.compat.stack import DRIVER, numbers
from hpcmod.model.compat.verdict import OK, REFUSE, UNKNOWN, WARN, Case, CompatFinding, CompatRule

CUDA_DRIVERS = {11: 450, 12: 525, 13: 580}
"""For each major release of CUDA: the oldest driver branch that runs all its minor releases."""

ROCM_DRIVERS: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {
    (30, 30): ((6, 3), (6, 4), (7, 0), (7, 1), (7, 2)),
}
"""For each amdgpu version: the releases of ROCm documented as compatible with it."""

_INJECTED = "/.singularity.d/libs/"


def _vendor(case: Case) -> Iterator[CompatFinding]:
    names = {"amd": "ROCm", "nvidia": "CUDA"}
    of_image = [vendor for vendor, has in (("amd", case.image.rocm), ("nvidia", case.image.cuda)) if has]
    if of_image and case.site.gpu_vendor and case.site.gpu_vendor not in of_image:
        found = f"the image is made for {names[of_image[0]]}, the GPUs here are of {case.site.gpu_vendor}: it sees none"
        yield CompatFinding(WARN, "gpu-vendor", found, f"Take an image for {names[case.site.gpu_vendor]}.")


def _cuda(case: Case) -> Iterator[CompatFinding]:
    release, driver = numbers(case.image.cuda), numbers(case.host.cuda_driver)
    if not release or case.site.gpu_vendor == "amd":
        return
    oldest = CUDA_DRIVERS.get(release[0])
    if not driver:
        wants = f", which wants a driver {oldest} or newer" if oldest else ""
        yield CompatFinding(
            UNKNOWN, "cuda-driver", f"no NVIDIA driver on this node; the image has CUDA {case.image.cuda}{wants}"
        )
    elif oldest is None:
        yield CompatFinding(
            UNKNOWN, "cuda-driver", f"CUDA {case.image.cuda} is not in the table; the driver is {case.host.cuda_driver}"
        )
    elif driver[0] < oldest:
        found = f"CUDA {case.image.cuda} wants a driver {oldest} or newer, this one is {case.host.cuda_driver}"
        cure = (
            f"Take an image with CUDA {_newest_for(driver[0])}, or one with NVIDIA's forward compatibility package, if "
            "these are data centre GPUs."
        )
        yield CompatFinding(WARN if case.image.cuda_compat else REFUSE, "cuda-driver", found, cure)
    else:
        yield CompatFinding(OK, "cuda-driver", f"CUDA {case.image.cuda} on driver {case.host.cuda_driver}")


def _newest_for(branch: int) -> str:
    fitting = [release for release, oldest in CUDA_DRIVERS.items() if oldest <= branch]
    return f"{max(fitting)}.x or older" if fitting else "10 or older"


def _rocm(case: Case) -> Iterator[CompatFinding]:
    release, driver = numbers(case.image.rocm)[:2], numbers(case.host.amd_driver)
    if not release or case.site.gpu_vendor == "nvidia":
        return
    if not driver:
        found = f"amdgpu tells no version on this node; the image has ROCm {case.image.rocm}"
        yield CompatFinding(UNKNOWN, "rocm-driver", found)
        return
    fitting = ROCM_DRIVERS.get(driver[:2])
    if fitting is None:
        found = (
            f"no table tells which ROCm amdgpu {case.host.amd_driver} belongs to; the image has ROCm {case.image.rocm}"
        )
        yield CompatFinding(
            UNKNOWN, "rocm-driver", found, "AMD supports two releases before and behind the driver's own."
        )
    elif release in fitting:
        yield CompatFinding(OK, "rocm-driver", f"ROCm {case.image.rocm} on amdgpu {case.host.amd_driver}")
    else:
        listed = ", ".join(".".join(map(str, one)) for one in fitting)
        found = f"amdgpu {case.host.amd_driver} is compatible with ROCm {listed}; the image has {case.image.rocm}"
        yield CompatFinding(WARN, "rocm-driver", found, "Take an image with one of these releases.")


def _injected(case: Case) -> Iterator[CompatFinding]:
    clashes = {host: own for one in case.loaded for host, own in one.replaced if host.startswith(_INJECTED)}
    if clashes:
        pairs = "; ".join(f"{host} instead of {own}" for host, own in list(clashes.items())[:5])
        flags = " ".join(case.site.runtime_flags)
        found = f"{flags} puts libraries of the host before the image's own: {pairs}"
        cure = "Leave the flag out where the image brings all of it: runtime_flags = [] in [gpu] of the profile."
        yield CompatFinding(WARN, "injection", found, cure)


def _driver(case: Case) -> Iterator[CompatFinding]:
    flags = " ".join(case.site.runtime_flags)
    for one in case.of(DRIVER):
        if not one.path.endswith("/libcuda.so.1") or one.path in one.from_host:
            continue
        found = f"the image's {one.path} comes before the driver's, which {flags} brings in"
        if one.path == case.image.cuda_compat:
            note = ": forward compatibility, which is for drivers older than its CUDA"
            yield CompatFinding(UNKNOWN, "driver-first", found + note)
        else:
            cure = "Take its directory off the image's LD_LIBRARY_PATH and ld.so.conf."
            yield CompatFinding(WARN, "driver-first", f"{found}: if it is CUDA's stub, no GPU is seen", cure)


GPU_RULES: tuple[CompatRule, ...] = (
    CompatRule(
        "gpu-vendor",
        "Is the image made for the GPUs of this machine?",
        "warn",
        "the profile's gpu.vendor; CUDA and ROCm each drive their own vendor's GPUs",
        _vendor,
    ),
    CompatRule(
        "cuda-driver",
        "Does the driver of this node run the image's CUDA?",
        "refuse; warn where the image has the forward compatibility package",
        "docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1: CUDA 11 450, 12 525, "
        "13 580 (found in November 2026)",
        _cuda,
    ),
    CompatRule(
        "rocm-driver",
        "Does the driver of this node run the image's ROCm?",
        "warn",
        "ROCm/amdgpu-docs pull request 97: amdgpu 30.30 with ROCm 6.3 to 7.2; of older drivers AMD's table names the "
        "release of ROCm, and no source found tells which amdgpu that is",
        _rocm,
    ),
    CompatRule(
        "driver-first",
        "Do programs get the driver's libcuda, rather than one that the image holds?",
        "warn",
        "CUDA Runtime API, cudaErrorStubLibrary (34): what loads the stub rather than the driver gets this error",
        _driver,
    ),
    CompatRule(
        "injection",
        "Do --nv or --rocm put libraries of the host in the place of the image's own?",
        "warn",
        "Apptainer 1.4.5, tried: both append /.singularity.d/libs to LD_LIBRARY_PATH, which comes before ld.so.cache; "
        "etc/rocmliblist.conf and etc/nvliblist.conf name them",
        _injected,
    ),
)
