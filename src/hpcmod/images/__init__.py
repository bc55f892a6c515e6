"""Images: find, fetch, convert, verify and read them. These are the names for other rooms; inside, import the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.images.acquire.locate import recognize as recognize
    from hpcmod.images.acquire.obtain import Obtained as Obtained
    from hpcmod.images.acquire.obtain import obtain as obtain
    from hpcmod.images.acquire.origin import FetchPlan as FetchPlan
    from hpcmod.images.acquire.origin import ObtainOptions as ObtainOptions
    from hpcmod.images.acquire.origin import Origin as Origin
    from hpcmod.images.convert import ConvertOptions as ConvertOptions
    from hpcmod.images.convert import convert_image as convert_image
    from hpcmod.images.oci.layout import read_layout as read_layout
    from hpcmod.images.settings import make_options as make_options
    from hpcmod.images.settings import open_cache as open_cache
    from hpcmod.images.sif_file import Sif as Sif
    from hpcmod.images.squashfs.pack import pack_directory as pack_directory
    from hpcmod.images.squashfs.pack import unpack as unpack
    from hpcmod.images.squashfs.reader import Squashfs as Squashfs
    from hpcmod.images.trust.policy import LocalImage as LocalImage
    from hpcmod.images.verify import verify_image as verify_image
    from hpcmod.images.web.credentials import Access as Access
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
