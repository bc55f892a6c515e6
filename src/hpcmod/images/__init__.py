"""Images: find, fetch, convert, verify and read them. These are the names for other rooms; inside, import the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.images.acquire.fetch_plan import FetchPlan as FetchPlan
    from hpcmod.images.acquire.fetch_plan import plan_fetch as plan_fetch
    from hpcmod.images.acquire.fetch_sif import ObtainOptions as ObtainOptions
    from hpcmod.images.acquire.fetch_sif import identify as identify
    from hpcmod.images.acquire.fetch_sif import labels_of as labels_of
    from hpcmod.images.acquire.fetch_sif import pin as pin
    from hpcmod.images.acquire.locate import find_image as find_image
    from hpcmod.images.acquire.locate import image_directories as image_directories
    from hpcmod.images.acquire.locate import names_image as names_image
    from hpcmod.images.acquire.locate import nowhere as nowhere
    from hpcmod.images.acquire.locate import parse_checksum as parse_checksum
    from hpcmod.images.acquire.locate import recognize as recognize
    from hpcmod.images.acquire.obtain import Obtained as Obtained
    from hpcmod.images.acquire.obtain import obtain as obtain
    from hpcmod.images.acquire.source import ImageSource as ImageSource
    from hpcmod.images.acquire.source import find_source as find_source
    from hpcmod.images.acquire.source import get_source as get_source
    from hpcmod.images.acquire.source import make_source as make_source
    from hpcmod.images.convert import ConvertOptions as ConvertOptions
    from hpcmod.images.convert import convert_image as convert_image
    from hpcmod.images.copy import copy_image as copy_image
    from hpcmod.images.inspect.contents import ImageCommands as ImageCommands
    from hpcmod.images.inspect.contents import read_commands as read_commands
    from hpcmod.images.inspect.contents import read_facts as read_facts
    from hpcmod.images.inspect.entry import find_entry as find_entry
    from hpcmod.images.inspect.packages import read_packages as read_packages
    from hpcmod.images.inspect.packages import read_packages_in as read_packages_in
    from hpcmod.images.integrity import Tally as Tally
    from hpcmod.images.integrity import check_sha256 as check_sha256
    from hpcmod.images.integrity import file_sha256 as file_sha256
    from hpcmod.images.integrity import parse_sha256 as parse_sha256
    from hpcmod.images.oci.layout import read_layout as read_layout
    from hpcmod.images.settings import cache_directory as cache_directory
    from hpcmod.images.settings import make_options as make_options
    from hpcmod.images.settings import open_cache as open_cache
    from hpcmod.images.settings import parse_compression as parse_compression
    from hpcmod.images.sif.format import architecture_name as architecture_name
    from hpcmod.images.sif.reader import check_sif as check_sif
    from hpcmod.images.sif.reader import extract_definition as extract_definition
    from hpcmod.images.sif.reader import is_sif as is_sif
    from hpcmod.images.sif.reader import read_sif as read_sif
    from hpcmod.images.sif.root import open_root as open_root
    from hpcmod.images.squashfs.pack import pack_directory as pack_directory
    from hpcmod.images.squashfs.pack import unpack as unpack
    from hpcmod.images.squashfs.reader import Squashfs as Squashfs
    from hpcmod.images.trust.policy import LocalImage as LocalImage
    from hpcmod.images.trust.policy import verify_local_sif as verify_local_sif
    from hpcmod.images.trust.policy import verify_sif_trust as verify_sif_trust
    from hpcmod.images.trust.provenance import read_provenance as read_provenance
    from hpcmod.images.trust.provenance import sidecar as sidecar
    from hpcmod.images.trust.provenance import write_provenance as write_provenance
    from hpcmod.images.verify import verify_image as verify_image
    from hpcmod.images.web.credentials import Access as Access
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
