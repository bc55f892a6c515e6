from __future__ import annotations

import pytest

from hpcmod.catalogue.values.relocation import relocate
from hpcmod.core.errors import BadInputError

OLD, NEW = "/appl/shop", "/pfs/new.shop-2"


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ('local root = "/appl/shop/software/Toy/1.0"', 'local root = "/pfs/new.shop-2/software/Toy/1.0"'),
        ("group '/appl/shop/x' '/appl/shop' ''", "group '/pfs/new.shop-2/x' '/pfs/new.shop-2' ''"),
        ("/appl/shop:/appl/shop/a:/b", "/pfs/new.shop-2:/pfs/new.shop-2/a:/b"),
        (r"The first of:\n/appl/shop/a.sif", r"The first of:\n/pfs/new.shop-2/a.sif"),
        ("/appl/shop2/a /mnt/appl/shop/a /appl/shop.old x/appl/shop", None),
        ("/appl/shop", NEW),
    ],
)
def test_paths_at_and_below_a_directory_move_and_no_others(text: str, moved: str | None) -> None:
    assert relocate(text, OLD, NEW) == (text if moved is None else moved)
    assert relocate(relocate(text, OLD, NEW), NEW, OLD) == text


def test_a_path_that_languages_quote_differently_is_refused() -> None:
    with pytest.raises(BadInputError, match="cannot be moved from /appl/shop to /my shop"):
        relocate("x", OLD, "/my shop")
    assert relocate("/my shop/a", "/my shop", "/my shop") == "/my shop/a"
