# Copyright 2026 the hpcmod authors
#
# This file is part of hpcmod: free software under the GNU General Public License as published by the Free Software
# Foundation, version 2 or (at your option) any later version. See the file LICENSE.
"""
EasyBuild support for building a container image from a recipe, and installing it as a module, as an easyblock

@author: the hpcmod authors
"""

import functools
import os
import platform
from pathlib import Path

from easybuild.easyblocks.generic.containermodule import ContainerModule, boundary
from easybuild.framework.easyblock import FETCH_STEP
from easybuild.framework.easyconfig import CUSTOM
from easybuild.tools.build_log import EasyBuildError
from easybuild.tools.config import build_option, build_path, source_paths
from easybuild.tools.filetools import mkdir

from hpcmod.core.progress import ProgressLine
from hpcmod.core.values.facts import architecture_name
from hpcmod.modules import ImageSource, report_plan

BUILD_PARAMETERS = {
    "base_image": ("", "Base image, instead of the recipe's: docker://..., oci:DIRECTORY, ..."),
    "components": ([], "Optional components, like --with of `hpcmod build`"),
    "engine": (None, "Build engine (default: the first that works)"),
    "host_libs": ("", "Directory of host libraries to copy into the image"),
    "mpi": ("", "MPI of the image: 'ompi', 'mpich' or 'none' (default: the recipe's)"),
    "offline_sources": ("", "Directory to search for sources before downloading them"),
    "ofi": ("", "libfabric of the image: 'builtin', 'swap' or 'none' (default: the recipe's)"),
    "recipe": ("", "Recipe name, see `hpcmod build --list`"),
    "settings": ({}, "Values to override in the recipe, like --set of `hpcmod build`"),
    "wheel_dir": ("", "Directory of wheels, the only source that pip may use"),
}


class ContainerBuild(ContainerModule):
    """Build an image from a recipe, unless it exists already, and install it like ContainerModule."""

    @staticmethod
    def extra_options(extra_vars=None):
        """Return the easyconfig parameters specific to built images."""
        extra_vars = ContainerModule.extra_options(extra_vars)
        extra_vars.update({name: [default, text, CUSTOM] for name, (default, text) in BUILD_PARAMETERS.items()})
        extra_vars["download_instructions"][0] = "Nothing to do: EasyBuild builds the image from the recipe"
        return extra_vars

    @property
    def store(self):
        """Store of the sources."""
        from hpcmod.building import SourceStore, default_lock

        offline = self.cfg["offline_sources"]
        return SourceStore(
            lock=default_lock(os.environ),
            downloads=self.image_directory / "upstream",
            offline_sources=Path(offline) if offline else None,
            tell=self.tell,
        )

    @property
    def image_directory(self):
        """Directory for built images, in the first source path."""
        return Path(source_paths()[0], self.name.lower()[0], self.name)

    @functools.cached_property
    def request(self):
        """Build request of the easyconfig."""
        from hpcmod.building.values.building import BuildRequest

        directories = {"host_libs": self.cfg["host_libs"], "wheels": self.cfg["wheel_dir"]}
        return BuildRequest(
            architecture=architecture_name(platform.machine()),
            mpi=self.cfg["mpi"],
            ofi=self.cfg["ofi"],
            extras=tuple(self.cfg["components"]),
            settings=self.cfg["settings"],
            base=self.cfg["base_image"],
            **{name: os.path.abspath(path) if path else "" for name, path in directories.items()},
        )

    def fetch_step(self, *args, **kwargs):
        """Fetch the sources of the recipe's components."""
        if self.cfg["sources"]:
            raise EasyBuildError("ContainerBuild accepts no sources; use ContainerModule for an existing image")
        super().fetch_step(*args, **kwargs)
        if self.dry_run:
            return
        from hpcmod.building import gather, plan_recipe, prepare_build  # imports requests, 0.1 s

        recipe = self.cfg["recipe"]
        with boundary(), ProgressLine(recipe) as progress:
            if build_option("stop") != FETCH_STEP:  # `eb --fetch` may run on a machine that cannot build
                draft = plan_recipe(recipe, self.request, store=self.store)
                self.build_options = prepare_build(draft, self.sif_of(draft), options=self.build_options)
            self.build_plan = gather(recipe, self.request, store=self.store, progress=progress)

    def build_step(self, *args, **kwargs):
        """Build the image in the first source path, or reuse an identical earlier build."""
        if self.dry_run:
            self.show_plan()
            return
        built = self.build_image()
        self.tell(f"image {built.path}: {'already built' if built.reused else f'built by {built.engine}'}")
        with boundary():
            source = ImageSource.make(str(built.path), (), built.sha256)
            image = source.find((), policy=self.site.images.trust, environ=os.environ)
        entry = {"name": self.image, "path": str(built.path), "cmd": None, "finalpath": self.builddir}
        self.src = [{**entry, "checksum": None, "expected": built.sha256, "image": image}]

    @functools.cached_property
    def build_options(self):
        """Build options for this machine."""
        from hpcmod.building import BuildOptions
        from hpcmod.images import make_options

        return BuildOptions(
            environ={"HPCMOD_BUILD_DIR": build_path(), **os.environ},
            engine=self.cfg["engine"],
            conversion=make_options(self.site, os.environ, use_cache=False).conversion,
            tell=self.tell,
        )

    def sif_of(self, plan):
        """Return the path of a plan's image, which contains the fingerprint of its inputs."""
        mkdir(str(self.image_directory), parents=True)
        return self.image_directory / f"{Path(self.image).stem}-{plan.fingerprint[:12]}.sif"

    def build_image(self):
        """Build the planned image."""
        from hpcmod.building import build_image, read_used, record_first_use

        out = self.sif_of(self.build_plan)
        with boundary(), ProgressLine(f"building {self.image}") as progress:
            built = build_image(self.build_plan, out, options=self.build_options, progress=progress)
            if not built.reused:
                record_first_use(read_used(built.path), store=self.store)
        return built

    def show_plan(self):
        """Print the build plan."""
        from hpcmod.building import plan_recipe, render_build_plan

        if self.cfg["recipe"]:
            with boundary():
                plan = plan_recipe(self.cfg["recipe"], self.request, store=self.store)
            for line in report_plan(render_build_plan(plan).splitlines(), os.environ):
                self.dry_run_msg("%s", line)
