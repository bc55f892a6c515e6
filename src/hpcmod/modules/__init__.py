"""Installations: plan, install, verify and remove them, with their modulefiles. These are the names for other rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.modules.binds import BindFinding as BindFinding
    from hpcmod.modules.binds import explain_binds as explain_binds
    from hpcmod.modules.binds import find_newest_path as find_newest_path
    from hpcmod.modules.commands import check_wrapped_commands as check_wrapped_commands
    from hpcmod.modules.commands import find_missing_programs as find_missing_programs
    from hpcmod.modules.easyconfigs.files import find_recipes as find_recipes
    from hpcmod.modules.easyconfigs.files import read_recipe as read_recipe
    from hpcmod.modules.eb import EXIT_CODE_FILE as EXIT_CODE_FILE
    from hpcmod.modules.eb import find_eb as find_eb
    from hpcmod.modules.eb import report_exit_code as report_exit_code
    from hpcmod.modules.eb import report_plan as report_plan
    from hpcmod.modules.eb import run_eb as run_eb
    from hpcmod.modules.image_source import ImageSource as ImageSource
    from hpcmod.modules.image_source import image_directories as image_directories
    from hpcmod.modules.image_source import parse_checksum as parse_checksum
    from hpcmod.modules.installed import Installed as Installed
    from hpcmod.modules.installed import find_in_trees as find_in_trees
    from hpcmod.modules.installed import find_installed as find_installed
    from hpcmod.modules.installed import find_without_modulefile as find_without_modulefile
    from hpcmod.modules.installed import module_trees as module_trees
    from hpcmod.modules.installed import own_trees as own_trees
    from hpcmod.modules.installed import read_installed as read_installed
    from hpcmod.modules.installed import read_record as read_record
    from hpcmod.modules.own_default import mark_default as mark_default
    from hpcmod.modules.own_packages import find_own_state as find_own_state
    from hpcmod.modules.own_packages import find_packages as find_packages
    from hpcmod.modules.own_place import choose_prefix as choose_prefix
    from hpcmod.modules.own_place import configured_places as configured_places
    from hpcmod.modules.own_place import own_module_trees as own_module_trees
    from hpcmod.modules.own_place import own_prefixes as own_prefixes
    from hpcmod.modules.own_place import source_directories as source_directories
    from hpcmod.modules.own_site import says_another_site as says_another_site
    from hpcmod.modules.own_site import site_of as site_of
    from hpcmod.modules.placed import PrivateInstallation as PrivateInstallation
    from hpcmod.modules.python_module import check_python_module as check_python_module
    from hpcmod.modules.python_packages import read_packages as read_packages
    from hpcmod.modules.python_packages import read_packages_in as read_packages_in
    from hpcmod.modules.remove import find_unfinished_removal as find_unfinished_removal
    from hpcmod.modules.remove import make_removal as make_removal
    from hpcmod.modules.remove import remove_installation as remove_installation
    from hpcmod.modules.runtime import host_environment as host_environment
    from hpcmod.modules.runtime import prover as prover
    from hpcmod.modules.runtime import start_commands as start_commands
    from hpcmod.modules.shared_prefix import SharedPrefix as SharedPrefix
    from hpcmod.modules.shared_prefix import install_with_eb as install_with_eb
    from hpcmod.modules.shared_prefix import read_shared_prefix as read_shared_prefix
    from hpcmod.modules.shared_prefix import sharing as sharing
    from hpcmod.modules.site_eb import eb_environment as eb_environment
    from hpcmod.modules.site_eb import find_parts as find_parts
    from hpcmod.modules.site_eb import why_no_easyblock as why_no_easyblock
    from hpcmod.modules.step import find_check_step as find_check_step
    from hpcmod.modules.store import VerifiedSif as VerifiedSif
    from hpcmod.modules.store import Ways as Ways
    from hpcmod.modules.store import add_logic as add_logic
    from hpcmod.modules.store import clear_parts as clear_parts
    from hpcmod.modules.store import complete_record as complete_record
    from hpcmod.modules.store import install as install
    from hpcmod.modules.store import install_files as install_files
    from hpcmod.modules.store import make_scripts as make_scripts
    from hpcmod.modules.store import remove_own_copy as remove_own_copy
    from hpcmod.modules.text.easyconfig import render_easyconfig as render_easyconfig
    from hpcmod.modules.text.modulefile import read_help as read_help
    from hpcmod.modules.text.modulefile import render_body as render_body
    from hpcmod.modules.text.modulefile import render_default as render_default
    from hpcmod.modules.text.modulefile import render_description as render_description
    from hpcmod.modules.text.plan import render_plan as render_plan
    from hpcmod.modules.user_layer import has_additions as has_additions
    from hpcmod.modules.user_layer import is_shipped as is_shipped
    from hpcmod.modules.user_layer import read_shipped as read_shipped
    from hpcmod.modules.user_layer import write_venv as write_venv
    from hpcmod.modules.verify import check_installation as check_installation
    from hpcmod.modules.verify import check_installations as check_installations
    from hpcmod.modules.verify import check_recorded as check_recorded
    from hpcmod.modules.verify import exit_code_of as exit_code_of
    from hpcmod.modules.verify import find_damage as find_damage
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
