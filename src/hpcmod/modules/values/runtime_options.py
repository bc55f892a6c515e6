"""Options of `singularity exec` and `apptainer exec`."""

from __future__ import annotations

RUNTIME_SHORT = {"B": "bind", "H": "home", "S": "scratch", "W": "workdir", "o": "overlay"}
RUNTIME_FLAGS = {
    "nv", "nvccli", "rocm", "cleanenv", "contain", "containall", "no-home", "writable", "writable-tmpfs",
    "fakeroot", "userns", "ipc", "pid", "net", "uts", "no-privs", "keep-privs", "compat", "no-init", "no-umask",
    "no-eval", "disable-cache", "no-tmp", "quiet", "silent", "debug", "verbose", "nocolor", "allow-setuid",
    "no-pid", "sharens", "no-compat", "docker-login", "no-https", "oom-kill-disable", "passphrase", "unsquash",
    "oci", "no-tmp-sandbox", "keep-layers",
}  # fmt: skip
"""Options of `singularity exec` and `apptainer exec` that take no value (1.4.5, and SingularityCE 4)."""
RUNTIME_LETTERS = {"e": "cleanenv", "c": "contain", "C": "containall", "w": "writable"}
