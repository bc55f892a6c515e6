"""The rules about GPUs, CUDA and its driver."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmod.compat.values.stack import DRIVER, numbers
from hpcmod.compat.values.verdict import Case, CompatRule
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding
from hpcmod.machine.values.targets import runs_on, select_gpu_targets

CUDA_DRIVERS = {11: 450, 12: 525, 13: 580}
"""For each major release of CUDA: the oldest driver branch that runs all its minor releases."""

_INJECTED = "/.singularity.d/libs/"


def _vendor(case: Case) -> Iterator[Finding]:
    names = {"amd": "ROCm", "nvidia": "CUDA"}
    of_image = [vendor for vendor, has in (("amd", case.image.gpu.rocm), ("nvidia", case.image.gpu.cuda)) if has]
    if of_image and case.site.gpu.vendor and case.site.gpu.vendor not in of_image:
        found = (
            f"the image is built for {names[of_image[0]]}, the GPUs here are from {case.site.gpu.vendor}: it sees none"
        )
        yield Finding(WARN, "gpu-vendor", found, f"Use an image for {names[case.site.gpu.vendor]}.")


def _target(case: Case) -> Iterator[Finding]:
    here = case.site.gpu.targets or case.host.gpu_targets
    code, gpus = " ".join(select_gpu_targets(case.image.gpu.targets)), " ".join(here)
    fits = runs_on(case.image.gpu.targets, here)
    if fits:
        yield Finding(OK, "gpu-target", f"built for {code}; the GPUs here are {gpus}")
    elif fits is False and not any(_vendor(case)):
        found = f"the image is built for {code}, the GPUs here are {gpus}: its GPU code does not run on them"
        yield Finding(WARN, "gpu-target", found, f"Use an image built for {gpus}.")


def _cuda(case: Case) -> Iterator[Finding]:
    release, driver = numbers(case.image.gpu.cuda), numbers(case.host.cuda_driver)
    if not release or case.site.gpu.vendor == "amd":
        return
    oldest = CUDA_DRIVERS.get(release[0])
    if not driver:
        wants = f", which needs driver {oldest} or newer" if oldest else ""
        yield Finding(
            UNKNOWN, "cuda-driver", f"no NVIDIA driver on this node; the image has CUDA {case.image.gpu.cuda}{wants}"
        )
    elif oldest is None:
        yield Finding(
            UNKNOWN,
            "cuda-driver",
            f"CUDA {case.image.gpu.cuda} is not in the driver table; the driver is {case.host.cuda_driver}",
        )
    elif driver[0] < oldest:
        found = f"CUDA {case.image.gpu.cuda} needs driver {oldest} or newer, found {case.host.cuda_driver}"
        cure = (
            f"Use an image with CUDA {_newest_for(driver[0])}, or one with NVIDIA's forward compatibility package, if "
            "these are data centre GPUs."
        )
        yield Finding(WARN if case.image.gpu.cuda_compat else FAIL, "cuda-driver", found, cure)
    else:
        yield Finding(OK, "cuda-driver", f"CUDA {case.image.gpu.cuda} on driver {case.host.cuda_driver}")


def _newest_for(branch: int) -> str:
    fitting = [release for release, oldest in CUDA_DRIVERS.items() if oldest <= branch]
    return f"{max(fitting)}.x or older" if fitting else "10 or older"


def _injected(case: Case) -> Iterator[Finding]:
    clashes = {host: own for library in case.loaded for host, own in library.replaced if host.startswith(_INJECTED)}
    if clashes:
        pairs = "; ".join(f"{host} instead of {own}" for host, own in list(clashes.items())[:5])
        flags = " ".join(case.site.gpu.runtime_flags)
        found = f"{flags} puts host libraries before the image's own: {pairs}"
        cure = "If the image contains all of them, leave the flag out: runtime_flags = [] in [gpu] of the profile."
        yield Finding(WARN, "injection", found, cure)


def _driver(case: Case) -> Iterator[Finding]:
    flags = " ".join(case.site.gpu.runtime_flags)
    for library in case.of(DRIVER):
        if not library.path.endswith("/libcuda.so.1") or library.path in library.from_host:
            continue
        found = f"the image's {library.path} comes before the driver's library, which {flags} adds"
        if library.path == case.image.gpu.cuda_compat:
            note = ": forward compatibility, which is for drivers older than its CUDA"
            yield Finding(UNKNOWN, "driver-first", found + note)
        else:
            cure = "Remove its directory from the image's LD_LIBRARY_PATH and ld.so.conf."
            yield Finding(WARN, "driver-first", f"{found}: if it is CUDA's stub, programs see no GPU", cure)


GPU_RULES: tuple[CompatRule, ...] = (
    CompatRule(
        "gpu-vendor",
        "Is the image built for the GPUs of this machine?",
        "warn",
        "the profile's gpu.vendor; CUDA and ROCm each support only their own vendor's GPUs",
        _vendor,
    ),
    CompatRule(
        "gpu-target",
        "If the image says for which GPUs it is built: are those of this machine among them?",
        "warn",
        "llvm.org/docs/AMDGPUUsage.html: code is for one processor; CUDA Programming Guide, binary and PTX "
        "compatibility: code for compute capability X.y runs on X.z with z >= y, PTX on any that is not older",
        _target,
    ),
    CompatRule(
        "cuda-driver",
        "Does this node's driver support the image's CUDA?",
        "fail; warn if the image has the forward compatibility package",
        "docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1: CUDA 11 450, 12 525, "
        "13 580 (found in November 2026)",
        _cuda,
    ),
    CompatRule(
        "driver-first",
        "Do programs get the driver's libcuda rather than a copy in the image?",
        "warn",
        "CUDA Runtime API, cudaErrorStubLibrary (34): programs that load the stub instead of the driver get this error",
        _driver,
    ),
    CompatRule(
        "injection",
        "Do --nv or --rocm replace the image's own libraries with the host's?",
        "warn",
        "Apptainer 1.4.5, tested: both append /.singularity.d/libs to LD_LIBRARY_PATH, which comes before ld.so.cache; "
        "etc/rocmliblist.conf and etc/nvliblist.conf list them",
        _injected,
    ),
)
