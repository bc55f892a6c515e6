"""Names in easyconfigs for containers: parameters, and the classes of modules."""

from __future__ import annotations

PARAMETERS = (
    *("easyblock", "name", "version", "versionsuffix", "homepage", "description", "toolchain", "sources"),
    "source_urls",
    *("checksums", "download_instructions", "image", "wrapped_commands", "environment", "bind_paths", "install_mode"),
    *("netstack", "site_profile", "software_license_urls", "sanity_check_paths", "sanity_check_commands"),
    *("enhance_sanity_check", "moduleclass", "dependencies", "whatis", "usage", "examples", "citing", "docpaths"),
    *("docurls", "upstream_contacts", "site_contacts", "modextravars", "modextrapaths", "modaliases", "modloadmsg"),
    *("modluafooter", "modtclfooter", "postinstallcmds", "recipe", "mpi", "ofi", "components", "settings"),
    *("base_image", "host_libs", "offline_sources", "wheel_dir", "engine", "user_packages"),
)
"""Those that docs/reference/easyconfig-parameters.md describes."""

NEAR_PARAMETERS = ("software_license", "postinstallmsgs", "osdependencies", "modunloadmsg")
"""Others of EasyBuild 5.4.1 that difflib takes for misspelt ones of those."""

MODULE_CLASSES = (
    *("base", "ai", "astro", "bio", "cae", "chem", "compiler", "data", "dataset", "debugger", "devel", "geo", "ide"),
    *("lang", "lib", "math", "mpi", "numlib", "perf", "quantum", "phys", "system", "toolchain", "tools", "vis"),
)
"""EasyBuild's own: DEFAULT_MODULECLASSES in easybuild/tools/config.py, 5.4.1; a site can define others."""
