"""Does an image fit a machine: ABI, loader, MPI, network libraries of the host. These are the names for other rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.compat.compat import make_case as make_case
    from hpcmod.compat.compat import read_image_mpi as read_image_mpi
    from hpcmod.compat.fit import check_fit as check_fit
    from hpcmod.compat.fit import check_fits as check_fits
    from hpcmod.compat.inspect.stack import find_stack as find_stack
    from hpcmod.compat.inspect.stack import open_files as open_files
    from hpcmod.compat.netstack import check_capture as check_capture
    from hpcmod.compat.recorded_fit import explain_module as explain_module
    from hpcmod.compat.recorded_fit import find_image_mpi as find_image_mpi
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
