# Copyright 2026 the hpcmod authors
#
# This file is part of hpcmod: free software under the GNU General Public License as published by the Free Software
# Foundation, version 2 or (at your option) any later version. See the file LICENSE.
"""
EasyBuild support for installing a container image (SIF) as a module, implemented as an easyblock

@author: the hpcmod authors
"""

import os
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from easybuild.framework.easyblock import EasyBlock
from easybuild.framework.easyconfig import CUSTOM
from easybuild.tools.build_log import EasyBuildError, print_msg, print_warning
from easybuild.tools.config import build_option, source_paths
from easybuild.tools.filetools import adjust_permissions, convert_name, det_lock_path, mkdir, remove_dir
from easybuild.tools.utilities import trace_msg

from hpcmod import __version__, resources
from hpcmod.catalogue.visible.notices import look_for_notices
from hpcmod.check.fit import check_fit
from hpcmod.errors import ELSEWHERE, HpcmodError, explain_os_error
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import write_file
from hpcmod.image.acquire.locate import image_directories, nowhere, parse_checksum
from hpcmod.image.acquire.source import LocalImage, find_source, get_source, make_source
from hpcmod.image.inspect.contents import read_facts
from hpcmod.image.integrity import check_sha256, file_sha256
from hpcmod.image.trust.policy import verify_sif_trust
from hpcmod.install import runtime, store
from hpcmod.install.eb import report_exit_code
from hpcmod.lock import hold, lock_name
from hpcmod.log import read_settings, start_log
from hpcmod.machine import load_site
from hpcmod.model.bind import Bind
from hpcmod.model.images.reference import ImageReference
from hpcmod.model.libraries.swap import with_mode
from hpcmod.model.plan import make_plan
from hpcmod.model.spec import InstallSpec, parse_commands, parse_environment, parse_install_mode
from hpcmod.progress import ProgressLine
from hpcmod.render.modules.modulefile import render_body, render_description
from hpcmod.render.plan import render_plan
from hpcmod.render.quote import terminal


@contextmanager
def boundary():
    """Turn hpcmod's errors, and the system's, into EasyBuild's, with their cure and their exit code."""
    try:
        yield
    except (HpcmodError, OSError) as err:
        fault = err if isinstance(err, HpcmodError) else explain_os_error(err, ELSEWHERE)
        report_exit_code(fault.exit_code, os.environ)
        raise EasyBuildError("%s", terminal(str(fault)), exit_code=fault.exit_code) from err


def warn(line):
    """Warn the user of something, with what others wrote made fit for a terminal."""
    print_warning("%s", terminal(line))


AGAIN = ("force", "rebuild", "module_only", "sanity_check_only", "skip")  # ask for one even where there is one

PARAMETERS = {
    "bind_paths": ([], "Bind paths on top of the site's: source[:destination[:options]]"),
    "environment": ({}, "Variables of the container: {name: value}; those that the user sets win"),
    "image": (None, "The image, instead of sources: docker://HOST/NAME@sha256:..., or whatever else names one"),
    "install_mode": ("auto", "The image: 'copy', 'link' (hard link), 'central' (in place) or 'auto' (the site's way)"),
    "netstack": ("auto", "The host's network libraries: 'swap' (before the image's), 'off' or 'auto' (the site's way)"),
    "site_profile": (None, "Name or file of the site profile (default: the one that fits this machine)"),
    "wrapped_commands": ([], "Commands to put on PATH, or {name: [program, argument...]} (default: well-known ones)"),
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
        with boundary():
            start_log(read_settings(os.environ))
        if self.cfg["image"]:
            self.cfg["sources"] = [self.cfg["image"]]
        sources = self.cfg["sources"] or [f"{self.name}-{self.version}{self.cfg['versionsuffix']}.sif"]
        self.image = sources[0]["filename"] if isinstance(sources[0], dict) else sources[0]
        for name in list(self.module_load_environment.vars):
            self.module_load_environment.remove(name)
        self._installed = None

    @cached_property
    def site(self):
        """The profile of this machine."""
        with boundary():
            return with_mode(load_site(self.cfg["site_profile"], os.environ, self.cfg.path), self.cfg["netstack"])

    @cached_property
    def plan(self):
        """The install plan, made from the image in place if there is one."""
        with boundary():
            return self.make_plan()

    def make_plan(self, image=None):
        """Make the install plan from an image, or from the one that is already in place."""
        spec = self.make_spec()
        image = image or next(filter(os.path.isfile, make_plan(None, self.site, spec).sif_places), None)
        return make_plan(read_facts(image) if image else None, self.site, spec)

    def make_spec(self):
        """Make the value that says what this easyconfig asks for."""
        mode = parse_install_mode(self.cfg["install_mode"])
        staged = "HPCMOD_STAGED" in os.environ  # `hpcmod publish`: the image is in the catalogue already
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
            install_mode="central" if staged else mode,
            binds=tuple(Bind.parse(text) for text in self.cfg["bind_paths"]),
            commands=parse_commands(self.cfg["wrapped_commands"]),
            environment=parse_environment(self.cfg["environment"]),
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
        print_msg(terminal(line), log=self.log, silent=self.silent)

    def clear_lock(self):
        """Remove EasyBuild's own lock, which the same dead process left."""
        remove_dir(det_lock_path(self.installdir.replace("/", "_")))

    def get_checksums_from_json(self, *args, **kwargs):
        """Under -x EasyBuild would read a checksums.json that it only pretends to have found."""
        return {} if self.dry_run else super().get_checksums_from_json(*args, **kwargs)

    def fetch_source(self, source, *args, **kwargs):
        """Find the image where EasyBuild looks for sources and where the site keeps its images, else download it."""
        spec = {"filename": source} if isinstance(source, str) else source
        urls = [*(spec.get("source_urls") or []), *self.cfg["source_urls"]]
        with boundary():
            name = ImageReference.parse(spec["filename"]).file_name
            checksum = parse_checksum(kwargs.get("checksum"), name)
            wanted = make_source(spec["filename"], urls, checksum)
            if build_option("enforce_checksums") and not wanted.pinned:
                raise EasyBuildError("Missing checksum for %s", name)
            places, policy = self.image_directories(), self.site.trust
            image = find_source(wanted, places, policy=policy, environ=os.environ) or self.download(wanted)
        found = {"name": name, "path": str(image.path), "cmd": None, "finalpath": self.builddir}
        expected = None if build_option("ignore_checksums") else image.sha256
        return {**found, "checksum": checksum, "expected": expected, "image": image}

    def image_directories(self):
        """Directories an image may lie in, in the order to look."""
        parents = [os.path.dirname(self.cfg.path), *(self.robot_path or []), *source_paths()]
        return image_directories(parents, self.name, self.site.central)

    def download(self, wanted):
        """Get the image, from wherever it is, into the first source path."""
        if self.dry_run:
            self.dry_run_msg("  * %s (MISSING)", wanted.reference.canonical)
            return LocalImage(Path(wanted.reference.file_name), None, None)
        if not wanted.origins:
            raise nowhere(wanted.reference, self.image_directories(), self.cfg["download_instructions"] or "")
        from hpcmod.image.settings import make_options  # imports requests: 0.1 s that an image at hand need not pay

        directory = Path(source_paths()[0], self.name.lower()[0], self.name)
        mkdir(str(directory), parents=True)
        options = make_options(self.site, os.environ, tool=f"hpcmod {__version__}", tell=self.tell)
        with ProgressLine(f"fetching {wanted.reference.file_name}") as progress:
            options = replace(options, detail=progress.note)
            return get_source(wanted, directory, options=options, beside=self.image_directories(), progress=progress)

    def fetch_step(self, *args, **kwargs):
        """Fetch the image without EasyBuild's hashing: the copy hashes, or checksum_step under --fetch."""
        return super().fetch_step(skip_checksums=True)

    def checksum_step(self, *args, **kwargs):
        """Verify the image now only if nothing will be installed that would do so while it copies."""
        if self.dry_run or self.cfg["stop"] != "fetch":
            return
        for source in self.src:
            with boundary():
                check_sha256(source["path"], expected=source["expected"], found=file_sha256(source["path"]))

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
        if not self.src:
            raise EasyBuildError("No image: sources is empty")
        source, found = self.src[0], self.src[0]["image"]
        wanted = store.VerifiedSif(
            found.path,
            source["expected"],
            provenance=found.provenance,
            ours=found.ours,
            believe_record="HPCMOD_UPDATE" in os.environ,  # `hpcmod update`: what nobody has touched is not read again
            verify=lambda path: verify_sif_trust(path, found.copy_rule, os.environ, shown=found.path),
        )
        with boundary(), ProgressLine(f"copying {source['name']}") as progress:
            self.plan = self.make_plan(source["path"])  # refuses a damaged root file system before anything changes
            image = store.install(
                self.plan, wanted, version=__version__, prove=runtime.prover(os.environ), progress=progress
            )
        if source["checksum"] not in (None, image.sha256):
            print_warning("Ignoring that the checksum of %s is %s", source["path"], image.sha256)
        self.tell(f"image {image.path}: {image.method}, sha256 {image.sha256}")
        self._installed = image

    def sanity_check_rpath(self, *args, **kwargs):
        """Nothing here was linked by EasyBuild."""
        return []

    def sanity_check_step(self, *args, **kwargs):
        """The image is in one of its places, fits the machine, and starts through the module; run scripts are there."""
        files = [self.plan.sif_places, "runscripts/conda-python-simple", "bin/start-shell"]
        kwargs.setdefault("custom_paths", {"files": files, "dirs": []})
        kwargs.setdefault("custom_commands", runtime.start_commands(os.environ, warn=warn))
        with boundary():
            check_fit(self.plan, os.environ, warn=warn)
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
            plan, syntax = look_for_notices(self.plan, os.environ), self.module_generator.SYNTAX
            return part(plan, syntax, resources.module_templates(), **kwargs)

    def make_module_step(self, fake=False):
        """Write the module where only this user can, then put it in place whole: there is never half a module."""
        if fake or self.dry_run:
            return super().make_module_step(fake=fake)
        final = Path(self.mod_filepath)
        clear_leftovers(final.parent, final.name, alone=True)
        try:
            with boundary(), tempfile.TemporaryDirectory() as private:
                written = Path(private, final.name)
                self.mod_filepath = str(written)
                modules = super().make_module_step(fake=fake)
                mkdir(str(final.parent), parents=True)
                content = written.read_bytes()
                write_file(final, content, mode=stat.S_IMODE(written.stat().st_mode))
                store.record_modulefile(Path(self.installdir), final, content)
        finally:
            self.mod_filepath = str(final)
        trace_msg(f"module file in place @ {final}")
        if self._installed and self._installed.method == "central":
            store.remove_own_copy(self.plan)
        return modules

    def permissions_step(self, *args, **kwargs):
        """The user's own packages stay the user's to change under --read-only-installdir."""
        super().permissions_step(*args, **kwargs)
        layer = os.path.join(self.installdir, "user-software")
        if os.path.isdir(layer) and not os.path.islink(layer) and not self.dry_run:
            adjust_permissions(layer, stat.S_IWUSR, add=True, recursive=True)
