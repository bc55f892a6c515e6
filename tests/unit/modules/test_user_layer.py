from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.core.values.facts import PythonFacts
from hpcmod.modules import user_layer
from hpcmod.modules.values.install_record import PACKED
from hpcmod.modules.values.plan import UserLayer

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = Path("lib", f"python{VERSION}", "site-packages")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A prefix with one package, used as the image."""
    packages = tmp_path / "it's an image" / PACKAGES
    packages.mkdir(parents=True)
    (packages / "only_in_image.py").write_text("where = 'image'\n")
    (packages / "in_both.py").write_text("where = 'image'\n")
    return tmp_path / "it's an image"


@pytest.fixture
def layer(tmp_path: Path, image: Path) -> UserLayer:
    root = tmp_path / "installation"
    root.mkdir()
    return UserLayer(
        directory=str(root / "user-software"),
        squashfs=str(root / "user-software.squashfs"),
        venv="/user-software/venv/pytorch",
        python=PythonFacts(os.path.realpath(sys.executable), VERSION, str(image)),
    )


@pytest.fixture
def venv(layer: UserLayer) -> Path:
    """Path of the virtual environment on the host."""
    return Path(layer.directory) / "venv" / "pytorch"


def python(venv: Path, code: str) -> str:
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [venv / "bin" / "python", "-c", code], env=env, check=True, capture_output=True, text=True
    ).stdout


def test_the_images_packages_are_seen_and_the_users_come_before_them(layer: UserLayer, venv: Path) -> None:
    user_layer.make(layer)
    (venv / PACKAGES / "in_both.py").write_text("where = 'user'\n")
    code = "import only_in_image, in_both; print(only_in_image.where, in_both.where)"
    assert python(venv, code) == "image user\n"
    code = "import sys, sysconfig; print(sys.prefix, sys.prefix != sys.base_prefix, sysconfig.get_path('purelib'))"
    assert python(venv, code) == f"{venv} True {venv / PACKAGES}\n"


@pytest.mark.parametrize("name", ["pip", "pip3"])
def test_its_pip_is_a_program_of_the_container(layer: UserLayer, venv: Path, name: str) -> None:
    user_layer.make(layer)
    script = venv / "bin" / name
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/user-software/venv/pytorch/bin/python\n")


@pytest.mark.parametrize("name", ["python", "python3", f"python{VERSION}"])
def test_every_name_of_python_points_to_the_images_own(layer: UserLayer, venv: Path, name: str) -> None:
    user_layer.make(layer)
    assert os.path.realpath(venv / "bin" / name) == layer.python.executable


def test_settings_of_the_user_are_kept(layer: UserLayer, venv: Path) -> None:
    venv.mkdir(parents=True)
    (venv / "mine").write_text("keep")
    user_layer.make(layer)
    assert [path.name for path in venv.iterdir()] == ["mine"]


def test_none_is_made_next_to_a_packed_one(layer: UserLayer) -> None:
    Path(layer.squashfs).touch()
    user_layer.make(layer)
    assert not Path(layer.directory).exists()


def test_removes_leftovers_of_a_killed_installation(
    layer: UserLayer, venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(user_layer, "write_venv", lambda *_: os._exit(9))
        user_layer.make(layer)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(venv.parent.iterdir())
    user_layer.make(layer)
    assert [path.name for path in venv.parent.iterdir()] == ["pytorch"]
    assert python(venv, "print('works')") == "works\n"


def test_an_error_leaves_no_partial_virtual_environment(
    layer: UserLayer, venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="no"):
        user_layer.make(layer)
    assert not venv.exists()


@pytest.mark.parametrize("place", ["user-software", "user-software/venv", "user-software/venv/pytorch"])
def test_no_environment_is_made_behind_a_link(layer: UserLayer, tmp_path: Path, place: str) -> None:
    """A member of the group may put a symbolic link into an installation that they share."""
    home = tmp_path / "home"
    home.mkdir()
    link = Path(layer.directory).parent / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(home if place != "user-software/venv/pytorch" else home / "new")
    with pytest.raises(OSError, match=r"symbolic link|not empty"):
        user_layer.make(layer)
    assert list(home.iterdir()) == []


def test_distinguishes_additions_from_the_files_of_an_empty_environment(layer: UserLayer, venv: Path) -> None:
    user_layer.make(layer)
    assert not user_layer.has_additions(Path(layer.directory))
    (venv / PACKAGES / "mine.py").touch()
    assert user_layer.has_additions(Path(layer.directory))
    assert user_layer.has_additions(venv / PACKAGES / "mine.py")


def test_the_rest_of_an_environment_whose_removal_failed_has_no_additions(layer: UserLayer, venv: Path) -> None:
    user_layer.make(layer)
    shutil.rmtree(venv / "lib")
    assert (venv / "lib64").is_symlink()
    assert not user_layer.has_additions(Path(layer.directory))


@pytest.mark.parametrize("planted", ["fifo", "nested", "list", "large"])
def test_a_damaged_or_planted_description_describes_nothing(tmp_path: Path, planted: str) -> None:
    described = tmp_path / user_layer.DESCRIBED
    if planted == "fifo":
        os.mkfifo(described)
    else:
        described.write_text({"nested": "[" * 100_000, "list": "[]", "large": " " * (17 << 20) + "{}"}[planted])
    assert user_layer.read_shipped(tmp_path) is None
    assert not user_layer.is_shipped(tmp_path / PACKED)
