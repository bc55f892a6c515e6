# Copyright 2026 the hpcmod authors
#
# This file is part of hpcmod: free software under the GNU General Public License as published by the Free Software
# Foundation, version 2 or (at your option) any later version. See the file LICENSE.
"""
EasyBuild support for building a container image from a recipe, and installing it as a module, as an easyblock

@author: the hpcmod authors
"""

import os
import platform
from functools import cached_property
from pathlib import Path

from easybuild.easyblocks.generic.containermodule import ContainerModule, boundary
from easybuild.framework.easyblock import FETCH_STEP
from easybuild.framework.easyconfig import CUSTOM
from easybuild.tools.build_log import EasyBuildError
from easybuild.tools.config import build_option, build_path, source_paths
from easybuild.tools.filetools import mkdir

from hpcmod import __version__
from hpcmod.image.acquire.source import find_source, make_source
from hpcmod.image.sif.reader import architecture_name
from hpcmod.progress import ProgressLine

BUILD_PARAMETERS = {
    "base_image": ("", "The image to build upon, instead of the recipe's: docker://..., oci:DIRECTORY, ..."),
    "components": ([], "What the recipe can have besides, as --with of `hpcmod build`"),
    "engine": (None, "The program to build with (default: the first that works)"),
    "host_libs": ("", "Directory of a host's libraries, to be copied into the image"),
    "mpi": ("", "MPI of the image: 'ompi', 'mpich' or 'none' (default: the recipe's)"),
    "offline_sources": ("", "Directory that sources are taken from before the network is asked"),
    "ofi": ("", "libfabric of the image: 'builtin', 'swap' or 'none' (default: the recipe's)"),
    "recipe": ("", "Name of the recipe, as `hpcmod build --list` shows them"),
    "settings": ({}, "Other values than the recipe's, as --set of `hpcmod build`"),
    "wheel_dir": ("", "Directory of wheels, which pip is to take and nothing else"),
}


class ContainerBuild(ContainerModule):
    """Build an image from a recipe, unless it has been built before, and install it as ContainerModule does."""

    @staticmethod
    def extra_options(extra_vars=None):
        """Easyconfig parameters specific to images that are built."""
        extra_vars = ContainerModule.extra_options(extra_vars)
        extra_vars.update({name: [default, text, CUSTOM] for name, (default, text) in BUILD_PARAMETERS.items()})
        return extra_vars

    @property
    def store(self):
        """Where sources are looked for."""
        from hpcmod.building.ingredients import SourceStore, default_lock

        offline = self.cfg["offline_sources"]
        return SourceStore(
            lock=default_lock(os.environ),
            downloads=self.image_directory / "upstream",
            offline_sources=Path(offline) if offline else None,
            tell=self.tell,
        )

    @property
    def image_directory(self):
        """Directory of the first source path that built images go to."""
        return Path(source_paths()[0], self.name.lower()[0], self.name)

    @cached_property
    def request(self):
        """What the easyconfig asks of the recipe."""
        from hpcmod.model.recipes.building import BuildRequest

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
        """Fetch the sources that the recipe's components are made from."""
        if self.cfg["sources"]:
            raise EasyBuildError("ContainerBuild builds its image, and takes no sources; ContainerModule does")
        super().fetch_step(*args, **kwargs)
        if self.dry_run:
            return
        from hpcmod.building.image import prepare_build
        from hpcmod.building.ingredients import gather, plan_recipe  # requests: 0.1 s that a module alone need not pay

        recipe = self.cfg["recipe"]
        with boundary(), ProgressLine(recipe) as progress:
            if build_option("stop") != FETCH_STEP:  # `eb --fetch` may run where nothing can be built
                draft = plan_recipe(recipe, self.request, store=self.store)
                self.build_options = prepare_build(draft, self.sif_of(draft), options=self.build_options)
            self.build_plan = gather(recipe, self.request, store=self.store, progress=progress)

    def build_step(self, *args, **kwargs):
        """Build the image in the first source path, or find it there as an earlier build of the same left it."""
        if self.dry_run:
            self.show_plan()
            return
        built = self.build_image()
        self.tell(f"image {built.path}: {'built before' if built.reused else f'built by {built.engine}'}")
        with boundary():
            wanted = make_source(str(built.path), (), built.sha256)
            image = find_source(wanted, (), policy=self.site.trust, environ=os.environ)
        found = {"name": self.image, "path": str(built.path), "cmd": None, "finalpath": self.builddir}
        self.src = [{**found, "checksum": None, "expected": built.sha256, "image": image}]

    @cached_property
    def build_options(self):
        """How the image is built on this machine."""
        from hpcmod.building.image import BuildOptions
        from hpcmod.image.settings import parse_compression

        return BuildOptions(
            environ={"HPCMOD_BUILD_DIR": build_path(), **os.environ},
            tool=f"hpcmod {__version__}",
            engine=self.cfg["engine"],
            conversion=parse_compression(self.site.compression),
            tell=self.tell,
        )

    def sif_of(self, plan):
        """Where the image of a plan lies; its name tells what it was built from."""
        mkdir(str(self.image_directory), parents=True)
        return self.image_directory / f"{Path(self.image).stem}-{plan.fingerprint[:12]}.sif"

    def build_image(self):
        """Build what is planned."""
        from hpcmod.building.image import build_image
        from hpcmod.building.ingredients import read_used, record_first_use

        out = self.sif_of(self.build_plan)
        with boundary(), ProgressLine(f"building {self.image}") as progress:
            built = build_image(self.build_plan, out, options=self.build_options, progress=progress)
            if not built.reused:
                record_first_use(read_used(built.path), store=self.store)
        return built

    def show_plan(self):
        """Show what would be built."""
        from hpcmod.building.ingredients import plan_recipe
        from hpcmod.render.recipe import render_build_plan

        if self.cfg["recipe"]:
            with boundary():
                plan = plan_recipe(self.cfg["recipe"], self.request, store=self.store)
            for line in render_build_plan(plan).splitlines():
                self.dry_run_msg("%s", line)
