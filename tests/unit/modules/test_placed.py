"""Copying an installation from a private directory; other tests cover its two possible destinations."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.tree import Tree
from hpcmod.modules.placed import PrivateInstallation


def test_generated_texts_get_the_final_paths() -> None:
    target = Path("/shared/Toy/1")
    made = PrivateInstallation(target, Tree(target.parent), target, "/home/me/0123/root", "0123")
    assert made.root == Path("/home/me/0123/root/shared/Toy/1")
    assert made.final_text(f"exec {made.root}/bin/x") == "exec /shared/Toy/1/bin/x"
    with pytest.raises(BadInputError, match="unusual characters"):
        made.final_text("/h\\u00f6me/me/0123/root/shared")
