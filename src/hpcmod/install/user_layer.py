"""The user's own packages on top of an image: a virtual environment made of files alone, without starting the image.

It is what `python -m venv --system-site-packages` makes, with one addition: a .pth file that names the image's own
packages, for a virtual environment on top of another one does not see them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from hpcmod.model.plan import USER_LAYER_IN_CONTAINER, UserLayer

_PIP = """#!{venv}/bin/python
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""


def make(layer: UserLayer) -> None:
    """Make the virtual environment, unless the user has one already, packed or not."""
    directory = Path(layer.directory)
    venv = directory / Path(layer.venv).relative_to(USER_LAYER_IN_CONTAINER)
    if venv.exists() or Path(layer.squashfs).exists():
        return
    venv.parent.mkdir(parents=True, exist_ok=True)
    partial = venv.with_name(f".{venv.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    _write_venv(layer, partial)
    partial.rename(venv)


def _write_venv(layer: UserLayer, venv: Path) -> None:
    python, version = layer.python, layer.python.version
    packages = venv / "lib" / f"python{version}" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "lib64").symlink_to("lib")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(python.executable)
    for name in ("python3", f"python{version}"):
        (venv / "bin" / name).symlink_to("python")
    for name in ("pip", "pip3"):
        script = venv / "bin" / name
        script.write_text(_PIP.format(venv=layer.venv))
        script.chmod(0o755)
    home = Path(python.executable).parent
    (venv / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = true\nversion = {version}\n")
    image_packages = f"{python.prefix}/lib/python{version}/site-packages"
    (packages / "image.pth").write_text(f"import site; site.addsitedir({image_packages!r})\n")
