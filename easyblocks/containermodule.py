# Copyright 2026 the hpcmod authors
#
# This file is part of hpcmod: free software under the GNU General Public License as published by the Free Software
# Foundation, version 2 or (at your option) any later version. See the file LICENSE.
"""
EasyBuild support for installing a container image (SIF) as a module, implemented as an easyblock

@author: the hpcmod authors
"""

import os
import platform
import shlex
import stat
from contextlib import contextmanager
from pathlib import Path

from easybuild.framework.easyblock import EasyBlock
from easybuild.framework.easyconfig import CUSTOM
from easybuild.tools.build_log import EasyBuildError, print_msg, print_warning
from easybuild.tools.config import build_option, source_paths
from easybuild.tools.filetools import adjust_permissions, convert_name, det_lock_path, mkdir, remove_dir
from easybuild.tools.utilities import trace_msg

import hpcmod
from hpcmod import resources
from hpcmod.errors import HpcmodError, explain_os_error
from hpcmod.image.contents import read_facts
from hpcmod.image.integrity import check_sha256, file_sha256
from hpcmod.image.locate import fetch_image, find_image, image_urls, nowhere, parse_checksum
from hpcmod.image.sif import architecture_name
from hpcmod.install import runtime, store
from hpcmod.lock import hold, lock_name
from hpcmod.machine import load_site
from hpcmod.model.bind import Bind
from hpcmod.model.plan import make_plan
from hpcmod.model.reference import ImageReference
from hpcmod.model.spec import InstallSpec, parse_commands, parse_install_mode
from hpcmod.progress import ProgressLine
from hpcmod.render.modulefile import render_body, render_description
from hpcmod.render.plan import render_plan


@contextmanager
def boundary():
    """Turn hpcmod's errors, and the system's, into EasyBuild's, with their cure and their exit code."""
    try:
        yield
    except HpcmodError as err:
        raise EasyBuildError("%s", err, exit_code=err.exit_code) from err
    except OSError as err:
        fault = explain_os_error(err)
        raise EasyBuildError("%s", fault, exit_code=fault.exit_code) from err


AGAIN = ("force", "rebuild", "module_only", "sanity_check_only", "skip")  # ask for one even where there is one

PARAMETERS = {
    "bind_paths": ([], "Bind paths on top of the site's: source[:destination[:options]]"),
    "install_mode": ("auto", "The image: 'copy', 'link' (hard link), 'central' (in place) or 'auto' (the site's way)"),
    "site_profile": (None, "Name or file of the site profile (default: the one that fits this machine)"),
    "wrapped_commands": ([], "Commands of the image to put on PATH (default: the well-known ones)"),
}


class ContainerModule(EasyBlock):
    """Install a ready container image with run scripts, wrappers and a module that needs nothing but bash."""

    @staticmethod
    def extra_options(extra_vars=None):
        """Easyconfig parameters specific to container modules."""
        extra_vars = EasyBlock.extra_options(extra_vars)
        extra_vars.update({name: [default, text, CUSTOM] for name, (default, text) in PARAMETERS.items()})
        return extra_vars

    def __init__(self, *args, **kwargs):
        """Derive the image's name; keep of EasyBuild's search paths only bin."""
        super().__init__(*args, **kwargs)
        sources = self.cfg["sources"] or [f"{self.name}-{self.version}{self.cfg['versionsuffix']}.sif"]
        self.image = sources[0]["filename"] if isinstance(sources[0], dict) else sources[0]
        for name in list(self.module_load_environment.vars):
            self.module_load_environment.remove(name)
        self._site = self._plan = self._installed = None

    @property
    def site(self):
        """The profile of this machine."""
        if self._site is None:
            with boundary():
                self._site = load_site(self.cfg["site_profile"], os.environ)
        return self._site

    @property
    def plan(self):
        """The install plan, made from the image in place if there is one."""
        if self._plan is None:
            with boundary():
                self._plan = self.make_plan()
        return self._plan

    def make_plan(self, image=None):
        """Make the install plan from an image, or from the one that is already in place."""
        spec = self.make_spec()
        places = make_plan(None, self.site, spec).sif_places
        image = image or next((place for place in places if os.path.isfile(place)), None)
        return make_plan(read_facts(image) if image else None, self.site, spec)

    def make_spec(self):
        """Make the value that says what this easyconfig asks for."""
        return InstallSpec(
            name=self.name,
            module=self.short_mod_name,
            variable=convert_name(self.name, upper=True),
            root=self.installdir,
            image=ImageReference.parse(self.image).file_name,
            easyconfig=os.path.basename(self.cfg.path),
            found_at=self.src[0]["path"] if self.src else store.recorded_source(Path(self.installdir)),
            description=self.cfg["description"] or "",
            homepage=self.cfg["homepage"] or "",
            install_mode=parse_install_mode(self.cfg["install_mode"]),
            binds=tuple(Bind.parse(text) for text in self.cfg["bind_paths"]),
            commands=parse_commands(self.cfg["wrapped_commands"]),
        )

    def run_all_steps(self, *args, **kwargs):
        """Hold a lock that tells its holder; one of a dead process is cleared, with EasyBuild's own."""
        if self.dry_run or build_option("ignore_locks"):
            return super().run_all_steps(*args, **kwargs)
        lock = Path(det_lock_path(lock_name(self.installdir)))
        limit = max(0, build_option("wait_on_lock_limit")) or None
        with boundary(), hold(lock, limit=limit, tell=self.tell, on_stale=self.clear_lock) as waited:
            if waited and not any(map(build_option, AGAIN)) and self.modules_tool.exist([self.full_mod_name])[0]:
                self.tell(f"{self.full_mod_name} was installed meanwhile")
                return True
            return super().run_all_steps(*args, **kwargs)

    def tell(self, line):
        """Say something to the user."""
        print_msg(line, log=self.log, silent=self.silent)

    def clear_lock(self):
        """Remove EasyBuild's own lock, which the same dead process left."""
        path = det_lock_path(self.installdir.replace("/", "_"))
        if os.path.exists(path):
            remove_dir(path)

    def get_checksums_from_json(self, *args, **kwargs):
        """Under -x EasyBuild would read a checksums.json that it only pretends to have found."""
        return {} if self.dry_run else super().get_checksums_from_json(*args, **kwargs)

    def fetch_source(self, source, *args, **kwargs):
        """Find the image where EasyBuild looks for sources and where the site keeps its images, else download it."""
        spec = {"filename": source} if isinstance(source, str) else source
        with boundary():
            reference = ImageReference.parse(spec["filename"])
            checksum = parse_checksum(kwargs.get("checksum"), reference.file_name)
            if build_option("enforce_checksums") and checksum is None:
                raise EasyBuildError("Missing checksum for %s", reference)
            path = find_image(reference, self.image_directories()) or self.download(reference, spec, checksum)
        found = {"name": reference.file_name, "path": str(path), "checksum": checksum}
        return {**found, "cmd": None, "finalpath": self.builddir}

    def image_directories(self):
        """Directories an image may lie in, in EasyBuild's order for sources; then the site's own."""
        parents = [os.path.dirname(self.cfg.path), *(self.robot_path or []), *source_paths()]
        below = (os.path.join(self.name.lower()[0], self.name), self.name, "")
        found = [os.path.normpath(os.path.join(parent, name)) for parent in parents for name in below]
        return [*found, *self.site.central]

    def download(self, reference, spec, checksum):
        """Download the image to the first source path."""
        urls = image_urls(reference, [*(spec.get("source_urls") or []), *self.cfg["source_urls"]])
        if self.dry_run:
            self.dry_run_msg("  * %s (MISSING)", reference)
            return reference.file_name
        if not urls:
            raise nowhere(reference, self.image_directories(), self.cfg["download_instructions"] or "")
        final = Path(source_paths()[0], self.name.lower()[0], self.name, reference.file_name)
        mkdir(str(final.parent), parents=True)
        with ProgressLine(f"downloading {reference.file_name}") as progress:
            return fetch_image(urls, final, checksum=checksum, progress=progress)

    def fetch_step(self, *args, **kwargs):
        """Fetch the image without EasyBuild's hashing: the copy hashes, or checksum_step under --fetch."""
        return super().fetch_step(skip_checksums=True)

    def checksum_step(self, *args, **kwargs):
        """Verify the image now only if nothing will be installed that would do so while it copies."""
        if self.dry_run or self.cfg["stop"] != "fetch":
            return
        for source in self.src:
            with boundary():
                check_sha256(source["path"], expected=self.expected(source), found=file_sha256(source["path"]))

    @staticmethod
    def expected(source):
        """The checksum a source must have, none under --ignore-checksums."""
        return None if build_option("ignore_checksums") else source["checksum"]

    def prepare_step(self, *args, **kwargs):
        """No compiler, so no wrappers for its RPATH."""
        self.toolchain.options["rpath"] = False
        super().prepare_step(*args, **kwargs)

    def build_step(self, *args, **kwargs):
        """An image is ready as it is: nothing to extract, to configure, or to build."""

    extract_step = configure_step = build_step

    def remove_module_file(self, *args, **kwargs):
        """Keep the module until the new one replaces it: an installation that fails must not take the old one along."""

    def make_installdir(self, *args, **kwargs):
        """Make the directory, or open it for writing; nothing in it is removed: it holds the user's own packages."""
        if not os.path.isdir(self.installdir):
            mkdir(self.installdir, parents=True)
        elif not self.dry_run:
            adjust_permissions(self.installdir, stat.S_IWUSR, add=True, recursive=True)

    def install_step(self, *args, **kwargs):
        """Put the image, the run scripts and the wrappers in place, the record last."""
        if self.dry_run:
            found = [source["path"] for source in self.src if os.path.isfile(source["path"])]
            for line in render_plan(self.make_plan(*found)):
                self.dry_run_msg("%s", line)
            return
        with boundary():
            for directory in ("", "bin", "runscripts"):
                store.clear_partials(Path(self.installdir, directory))
            self._installed = self.install_image()
            files = store.install_files(self.plan, resources.runscript_templates())
            store.write_record(self.plan, self._installed, files, hpcmod.__version__)

    def install_image(self):
        """Put the image in place and say how."""
        if not self.src:
            raise EasyBuildError("No image: sources is empty")
        source = self.src[0]
        wanted = store.ImageSource(Path(source["path"]), self.expected(source), architecture_name(platform.machine()))
        self._plan = self.make_plan(source["path"])  # refuses a damaged root file system before anything changes
        with ProgressLine(f"copying {source['name']}") as progress:
            image = store.install_image(self.plan, wanted, prove=runtime.prover(os.environ), progress=progress)
        if source["checksum"] not in (None, image.sha256):
            print_warning("Ignoring that the checksum of %s is %s", source["path"], image.sha256)
        self.tell(f"image {image.path}: {image.method}, sha256 {image.sha256}")
        return image

    def sanity_check_rpath(self, *args, **kwargs):
        """Nothing here was linked by EasyBuild."""
        return []

    def sanity_check_step(self, *args, **kwargs):
        """The image is in one of its places and starts through the very module; the run scripts are there."""
        files = [self.plan.sif_places, "runscripts/conda-python-simple", "bin/start-shell"]
        kwargs.setdefault("custom_paths", {"files": files, "dirs": []})
        found = runtime.find_runtime(os.environ)
        if not found:
            print_warning("No container runtime on this machine, so the image was not started")
        kwargs.setdefault("custom_commands", [f'{shlex.quote(found)} exec "$SIF" true'] if found else [])
        super().sanity_check_step(*args, **kwargs)

    def make_module_description(self):
        """Help, whatis and packages, each text shown as written."""
        return self.render(render_description, conflict=os.path.dirname(self.short_mod_name))

    def make_module_extra(self, *args, **kwargs):
        """What every EasyBuild module sets, then PATH, image, binds and variables."""
        # not through module_load_environment, which takes an installation's directory for a pattern of names
        path = self.module_generator.prepend_paths("PATH", ["bin"])
        return super().make_module_extra(*args, **kwargs) + path + self.render(render_body)

    def render(self, part, **kwargs):
        """Render a part of the module in its syntax."""
        with boundary():
            return part(self.plan, self.module_generator.SYNTAX, resources.module_templates(), **kwargs)

    def make_module_step(self, fake=False):
        """Write the module under a name that no tool reads, then rename it: there is never half a module."""
        if fake or self.dry_run:
            return super().make_module_step(fake=fake)
        final = Path(self.mod_filepath)
        store.clear_partials(final.parent, final.name)
        self.mod_filepath = str(store.partial_path(final))
        try:
            modules = super().make_module_step(fake=fake)
            os.replace(self.mod_filepath, final)
            trace_msg(f"module file in place @ {final}")
            if self._installed and self._installed.method == "central":
                store.remove_own_copy(self.plan)
        finally:
            Path(self.mod_filepath).unlink(missing_ok=True)
            self.mod_filepath = str(final)
        return modules

    def permissions_step(self, *args, **kwargs):
        """The user's own packages stay the user's to change under --read-only-installdir."""
        super().permissions_step(*args, **kwargs)
        layer = os.path.join(self.installdir, "user-software")
        if os.path.isdir(layer) and not self.dry_run:
            adjust_permissions(layer, stat.S_IWUSR, add=True, recursive=True)
