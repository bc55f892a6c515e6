"""What is known of a machine: its profile, GPUs and module tool. These are the names for other rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.machine.gpus import find_gpu_targets as find_gpu_targets
    from hpcmod.machine.gpus import read_gpu_targets as read_gpu_targets
    from hpcmod.machine.machine import FALLBACK as FALLBACK
    from hpcmod.machine.machine import SYSTEM_PROFILE as SYSTEM_PROFILE
    from hpcmod.machine.machine import Choice as Choice
    from hpcmod.machine.machine import Machine as Machine
    from hpcmod.machine.machine import detect as detect
    from hpcmod.machine.machine import find_machine as find_machine
    from hpcmod.machine.machine import is_profile_file as is_profile_file
    from hpcmod.machine.machine import load_site as load_site
    from hpcmod.machine.machine import own_profile as own_profile
    from hpcmod.machine.machine import state_directory as state_directory
    from hpcmod.machine.machine import system_policy as system_policy
    from hpcmod.machine.module_tool import COMMANDS as COMMANDS
    from hpcmod.machine.module_tool import EB_SYNTAX as EB_SYNTAX
    from hpcmod.machine.module_tool import EB_TOOL as EB_TOOL
    from hpcmod.machine.module_tool import LMOD as LMOD
    from hpcmod.machine.module_tool import eb_settings as eb_settings
    from hpcmod.machine.module_tool import find_init as find_init
    from hpcmod.machine.module_tool import find_module_tool as find_module_tool
    from hpcmod.machine.module_tool import find_modulefile as find_modulefile
    from hpcmod.machine.module_tool import module_name as module_name
    from hpcmod.machine.module_tool import with_one_tool as with_one_tool
    from hpcmod.machine.node import node_program as node_program
    from hpcmod.machine.runtime import find_runtime as find_runtime
    from hpcmod.machine.runtime import read_version as read_version
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
