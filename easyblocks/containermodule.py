# Copyright 2026 the hpcmod authors
#
# This file is part of hpcmod: free software under the GNU General Public License as published by the Free Software
# Foundation, version 2 or (at your option) any later version. See the file LICENSE.
"""
EasyBuild support for installing a container image (SIF) as a module, implemented as an easyblock

@author: the hpcmod authors
"""

import functools
import os
import stat
import sys
import tempfile
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace

from easybuild.framework.easyblock import EasyBlock
from easybuild.framework.easyconfig import CUSTOM
from easybuild.tools.build_log import EasyBuildError, print_msg, print_warning
from easybuild.tools.config import build_option, source_paths
from easybuild.tools.filetools import adjust_permissions, convert_name, det_lock_path, mkdir, remove_dir
from easybuild.tools.utilities import trace_msg

HERE = Path(__file__).resolve().parent
LIBRARIES = [str(HERE.parents[2] if HERE.name == "generic" else HERE.parent / "src")]
LIBRARIES += filter(None, os.environ.get("HPCMOD_LIBRARIES", "").split(":"))
OURS = {
    "hpcmod", "click", "jinja2", "markupsafe", "packaging", "requests", "certifi", "charset_normalizer", "idna",
    "urllib3", "tree_sitter", "tree_sitter_bash", "zstandard", "tomli", "cryptography", "_cffi_backend",
    "deflate", "isal", "lz4",
}  # fmt: skip
AGAIN_ELSEWHERE = (
    "import sys; sys.path[:] = filter(None, sys.path); import runpy; runpy._run_module_as_main('easybuild.main')"
)


def find_ours(name, path=None, target=None):
    """Find hpcmod and its libraries where this file is installed; on sys.path, they would add another EasyBuild."""
    return PathFinder.find_spec(name, LIBRARIES) if name in OURS else None


sys.meta_path.insert(0, SimpleNamespace(find_spec=find_ours))
try:
    import zstandard  # noqa: F401  # compiled for one version of Python

    import hpcmod.machine.values.profile
    import hpcmod.modules.text.modulefile  # noqa: F401
except (ImportError, SyntaxError) as err:
    another = os.environ.pop("HPCMOD_EB_PYTHON", "")
    if another:  # of `hpcmod site env`, for an eb with a Python of its own, whatever EB_PYTHON says
        os.execv(another, [another, "-c", AGAIN_ELSEWHERE, *sys.argv[1:]])  # noqa: S606
    lacks = "too old" if sys.version_info < (3, 9) else f"no {(err.name or str(err)).partition('.')[0]} for it"
    used = f"Python {sys.version_info[0]}.{sys.version_info[1]} of eb, {sys.executable}"
    raise ImportError(f"hpcmod does not run with the {used}: {lacks}") from err

from contextlib import nullcontext
from dataclasses import replace

from hpcmod.catalogue import look_for_notices
from hpcmod.compat import check_fit
from hpcmod.core import resources
from hpcmod.core.errors import ELSEWHERE, HpcmodError, NoSpaceError, explain_os_error
from hpcmod.core.fs.checksums import check_sha256, file_sha256
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree, write_file
from hpcmod.core.lock import hold, lock_name
from hpcmod.core.log import QUIET, read_settings, start_log
from hpcmod.core.progress import ProgressLine
from hpcmod.core.registry import offered
from hpcmod.core.text.quote import terminal
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import LocalImage, Sif
from hpcmod.machine import load_site
from hpcmod.modules import (
    EXIT_CODE_FILE,
    ImageSource,
    VerifiedSif,
    Ways,
    add_logic,
    check_wrapped_commands,
    complete_record,
    image_directories,
    install,
    parse_checksum,
    prover,
    read_record,
    read_shared_prefix,
    remove_own_copy,
    render_body,
    render_description,
    render_plan,
    report_exit_code,
    report_plan,
    site_of,
    start_commands,
)
from hpcmod.modules.values.install_record import PACKED, SUFFIXES
from hpcmod.modules.values.plan import make_plan
from hpcmod.modules.values.spec import SPEC_PARAMETERS, parse_spec
from hpcmod.modules.values.swap import with_mode


@contextmanager
def boundary():
    """Convert errors of hpcmod and the operating system to EasyBuildError, with their cure and exit code."""
    try:
        yield
    except (HpcmodError, OSError) as err:
        elsewhere = "" if "HPCMOD_STAGED" in os.environ else ELSEWHERE  # `hpcmod publish` has no such option
        fault = err if isinstance(err, HpcmodError) else explain_os_error(err, elsewhere)
        if isinstance(fault, NoSpaceError) and elsewhere not in fault.cure:
            fault.cure = f"{fault.cure.rstrip('.')}: {elsewhere}"
        report_exit_code(fault.exit_code, os.environ)
        failure = EasyBuildError("%s", terminal(str(fault)))
        failure.exit_code = fault.exit_code  # no argument: EasyBuild 4 has none
        raise failure from err


def warn(line):
    """Print a warning, with control characters from untrusted text escaped."""
    print_warning("%s", terminal(line))


AGAIN = ("force", "rebuild", "module_only", "sanity_check_only", "skip")  # options to reinstall

PARAMETERS = {
    "bind_paths": ([], "Bind paths in addition to the site's: source[:destination[:options]]"),
    "environment": ({}, "Container variables: {name: value}; values set by the user win"),
    "image": (None, "Image, instead of sources: docker://HOST/NAME@sha256:..., or another image reference"),
    "install_mode": ("auto", "Image: 'copy', 'link' (hard link), 'central' (in place) or 'auto' (site default)"),
    "netstack": ("auto", "Host network libraries: 'swap' (replace the image's), 'off' or 'auto' (site default)"),
    "site_profile": (None, "Name or file of the site profile (default: detected)"),
    "user_packages": ([], "Python packages to install next to the image: lines of a requirements file"),
    "wrapped_commands": (
        None,
        "Commands to put on PATH, or {name: [program, argument...]}; [] for none (default: common ones)",
    ),
}

INSTRUCTIONS = "EasyBuild downloads the image in `image`; a file in `sources` must be in a directory that is searched"


class ContainerModule(EasyBlock):
    """Install an existing container image with run scripts, wrappers and a module that needs only bash."""

    @staticmethod
    def extra_options(extra_vars=None):
        """Return the easyconfig parameters specific to container modules."""
        extra_vars = EasyBlock.extra_options(extra_vars)
        extra_vars.update({name: [default, text, CUSTOM] for name, (default, text) in PARAMETERS.items()})
        extra_vars["download_instructions"] = [INSTRUCTIONS, "What to do if the image is not found", CUSTOM]
        return extra_vars

    def __init__(self, *args, **kwargs):
        """Determine the image's name, and remove EasyBuild's search paths."""
        super().__init__(*args, **kwargs)
        with boundary():
            start_log(read_settings(os.environ))
        if self.cfg["image"]:
            self.cfg["sources"] = [self.cfg["image"]]
        sources = self.cfg["sources"] or [f"{self.name}-{self.version}{self.cfg['versionsuffix']}.sif"]
        self.image = sources[0]["filename"] if isinstance(sources[0], dict) else sources[0]
        if hasattr(self, "module_load_environment"):
            for name in list(self.module_load_environment.vars):
                self.module_load_environment.remove(name)
        else:  # EasyBuild 4
            self.make_module_req_guess = dict
        self._installed = None
        self._fit = None

    def check_checksums(self):
        """Return what `eb --check-contrib` reports: the digest in `image` counts as the checksum."""
        has_digest = "@sha256:" in (self.cfg["image"] or "")
        return [] if has_digest and not self.cfg["checksums"] else super().check_checksums()

    @functools.cached_property
    def site(self):
        """Site profile of this machine."""
        with boundary():
            here = load_site(self.cfg["site_profile"], os.environ, self.cfg.path)
            asked = os.environ.get("HPCMOD_SITE") or self.cfg["site_profile"]
            record = read_record(Path(self.shared.final(self.installdir) if self.shared else self.installdir))
            site = site_of(record, here, os.environ, asked=asked, tell=self.tell)
            return with_mode(site, self.cfg["netstack"])

    @functools.cached_property
    def shared(self):
        """Prefix that others may write, to which `hpcmod` will copy this installation; None if there is none."""
        return read_shared_prefix(os.environ)

    @functools.cached_property
    def plan(self):
        """Install plan, made from the installed image if it exists."""
        with boundary():
            return self.make_plan()

    def make_plan(self, image=None):
        """Return the install plan for an image, or for the one that is already installed."""
        spec = self.make_spec()
        image = image or next(filter(os.path.isfile, make_plan(None, self.site, spec).sif_places), None)
        return make_plan(Sif(image).facts() if image else None, self.site, spec)

    def make_spec(self):
        """Return what this easyconfig requests."""
        spec = parse_spec(
            {name: self.cfg[name] for name in SPEC_PARAMETERS},
            name=self.name,
            module=self.short_mod_name,
            variable=convert_name(self.name, upper=True),
            root=self.installdir,
            # the runtime takes a colon for the end of a path
            image=ImageReference.parse(self.image).file_name.replace(":", "-"),
            easyconfig=os.path.basename(self.cfg.path),
            found_at=self.src[0]["path"] if self.src else read_record(Path(self.installdir)).image.source,
            syntaxes=self.syntaxes(),
        )
        staged = "HPCMOD_STAGED" in os.environ  # `hpcmod publish`: the image is already in the catalogue
        return replace(spec, install_mode="central", published=True) if staged else spec

    def syntaxes(self):
        """Return the syntax of the new modulefile, and those of old ones that use the same installation."""
        final = self.shared.final(self.mod_filepath) if self.shared else Path(self.mod_filepath)
        new, name = self.module_generator.SYNTAX, str(final).removesuffix(".lua")
        published = os.environ.get("HPCMOD_STAGED", "").split()
        old = [syntax for syntax, suffix in SUFFIXES.items() if syntax in published or os.path.isfile(name + suffix)]
        return tuple(dict.fromkeys([new, *old]))

    def run_all_steps(self, *args, **kwargs):
        """Run all steps under a lock that names its holder; remove locks of dead processes, also EasyBuild's own."""
        if self.dry_run or build_option("ignore_locks"):
            return super().run_all_steps(*args, **kwargs)
        lock = Path(det_lock_path(lock_name(self.installdir)))
        below = None
        if self.shared:
            lock, below = self.shared.lock(self.shared.final(self.installdir)), Path(self.shared.top)
        limit = max(0, build_option("wait_on_lock_limit")) or None
        with boundary(), hold(lock, limit=limit, tell=self.tell, on_stale=self.clear_lock, below=below) as waited:
            if waited and not any(map(build_option, AGAIN)) and self.modules_tool.exist([self.full_mod_name])[0]:
                self.tell(f"{self.full_mod_name} was installed by another process in the meantime")
                return True
            return super().run_all_steps(*args, **kwargs)

    def tell(self, line):
        """Print a message for the user; on stderr for hpcmod, which may not show the steps of eb on stdout."""
        called, quiet = EXIT_CODE_FILE in os.environ, self.silent or QUIET in os.environ
        line = f"hpcmod: {line}" if called else line
        print_msg(terminal(line), log=self.log, silent=quiet, stderr=called, prefix=not called)

    def clear_lock(self):
        """Remove EasyBuild's own lock, left by the same dead process."""
        remove_dir(det_lock_path(self.installdir.replace("/", "_")))

    def get_checksums_from_json(self, *args, **kwargs):
        """Return no checksums under -x, where EasyBuild would read a checksums.json that does not exist."""
        return {} if self.dry_run else super().get_checksums_from_json(*args, **kwargs)

    def fetch_source(self, source, *args, **kwargs):
        """Find the image in EasyBuild's source paths or the site's image directories, or else download it."""
        spec = {"filename": source} if isinstance(source, str) else source
        urls = [*(spec.get("source_urls") or []), *self.cfg["source_urls"]]
        with boundary():
            name = ImageReference.parse(spec["filename"]).file_name
            checksum = parse_checksum(kwargs.get("checksum"), name)
            wanted = ImageSource.make(spec["filename"], urls, checksum)
            if build_option("enforce_checksums") and not wanted.pinned:
                raise EasyBuildError("Missing checksum for %s", name)
            places, policy = self.image_directories(), self.site.images.trust
            image = wanted.find(places, policy=policy, environ=os.environ) or self.download(wanted)
        entry = {"name": name, "path": str(image.path), "cmd": None, "finalpath": self.builddir}
        expected = None if build_option("ignore_checksums") else image.sha256
        return {**entry, "checksum": checksum, "expected": expected, "image": image}

    def image_directories(self):
        """Return the directories to search for the image, in order."""
        parents = [os.path.dirname(self.cfg.path), *(self.robot_path or []), *source_paths()]
        return image_directories(parents, self.name, self.site.images.central)

    def download(self, wanted):
        """Fetch the image into the first source path."""
        if self.dry_run:
            self.dry_run_msg("%s", *report_plan([f"  * {wanted.reference.canonical} (MISSING)"], os.environ))
            return LocalImage(Path(wanted.reference.file_name), None, None)
        if not wanted.origins:
            given = self.cfg["download_instructions"]
            raise wanted.missing(self.image_directories(), given if given and given != INSTRUCTIONS else "")
        from hpcmod.images import make_options  # imports requests, 0.1 s: not needed for a local image

        final = Path(source_paths()[0], self.name.lower()[0], self.name, wanted.reference.file_name)
        options = make_options(self.site, os.environ, tell=self.tell)
        beside, named = self.image_directories(), f"fetching {wanted.reference.file_name}"
        with ProgressLine(named) as progress, self.anchored(final) as anchored:
            image = wanted.fetch(anchored.parent, options=options, beside=beside, progress=progress)
        return replace(image, path=final)

    def anchored(self, path):
        """Create the directory of a source; return a context with a path of it that no other user can redirect."""
        if self.shared and path.is_relative_to(self.shared.prefix):
            return self.shared.anchored(path)
        mkdir(str(path.parent), parents=True)
        return nullcontext(path)

    def fetch_step(self, *args, **kwargs):
        """Fetch the image without EasyBuild's checksums: the copy verifies them, or checksum_step under --fetch."""
        return super().fetch_step(skip_checksums=True)

    def checksum_step(self, *args, **kwargs):
        """Verify the image under --fetch; otherwise the installation verifies it while copying."""
        if self.dry_run or self.cfg["stop"] != "fetch":
            return
        for source in self.src:
            with boundary():
                check_sha256(source["path"], expected=source["expected"], found=file_sha256(source["path"]))

    def prepare_step(self, *args, **kwargs):
        """Prepare without RPATH wrappers: there is no compiler."""
        self.toolchain.options["rpath"] = False
        before = os.environ.get("_HPCMOD_CONTAINER", "")  # of a container that the user has loaded
        super().prepare_step(*args, **kwargs)
        loaded = os.environ.get("_HPCMOD_CONTAINER", "")
        if loaded and loaded != before:
            raise EasyBuildError(
                "%s depends on the container %s, but only one container can be loaded at a time: remove it from "
                "dependencies",
                self.short_mod_name,
                loaded.rpartition(" ")[2],
            )

    def build_step(self, *args, **kwargs):
        """Do nothing: an image need not be extracted, configured or built."""

    extract_step = configure_step = build_step

    def remove_module_file(self, *args, **kwargs):
        """Keep the module until the new one replaces it, so that a failed installation leaves the old one."""

    def make_installdir(self, *args, **kwargs):
        """Create the directory or make it writable; keep its content, which includes the user's packages."""
        if not os.path.isdir(self.installdir):
            mkdir(self.installdir, parents=True)
        elif not self.dry_run:
            adjust_permissions(self.installdir, stat.S_IWUSR, add=True, recursive=True)

    def install_step(self, *args, **kwargs):
        """Install the image, the run scripts and the wrappers, and write the record last."""
        with boundary():
            additions = [of(self.cfg, Path(self.cfg.path)) for of in offered("additions")]
        if self.dry_run:
            images = [source["path"] for source in self.src if os.path.isfile(source["path"])]
            with boundary():
                plan = self.make_plan(*images)
            lines = [*(line for each in additions for line in each.lines()), *render_plan(plan)]
            for line in report_plan(lines, os.environ):
                self.dry_run_msg("%s", line)
            return
        if not self.src:
            raise EasyBuildError("No image: sources is empty")
        source, local = self.src[0], self.src[0]["image"]
        sif = VerifiedSif(
            local.path,
            source["expected"],
            provenance=local.provenance,
            ours=local.ours,
            believe_record="HPCMOD_UPDATE" in os.environ,  # `hpcmod update`: unchanged images are not read again
            verify=lambda path: local.verify_copy(path, os.environ),
        )
        with boundary(), ProgressLine(f"copying {source['name']}") as progress:
            self.plan = self.make_plan(source["path"])  # refuses a damaged root file system before anything changes
            check_wrapped_commands(self.plan.spec.commands or (), Path(source["path"]), self.plan.binds)
            for addition in additions:
                addition.check(self.shared.final(self.installdir) if self.shared else Path(self.installdir))
            prove = prover(os.environ, self.plan.trial)
            image = install(self.plan, sif, Ways(prove, self.shared, progress, self.tell))
        if source["checksum"] not in (None, image.sha256):
            print_warning("Ignoring the checksum mismatch: the sha256 of %s is %s", source["path"], image.sha256)
        self.tell(f"image {image.path}: {image.method}, sha256 {image.sha256}")
        self._installed = image
        with boundary():
            for addition in additions:
                addition.install(self.plan, image, os.environ, self.tell)

    def sanity_check_rpath(self, *args, **kwargs):
        """Return no findings: EasyBuild linked nothing here."""
        return []

    def sanity_check_step(self, *args, **kwargs):
        """Check that image and run scripts exist, and that the image fits the machine and starts with the module."""
        packed = [PACKED] if self.cfg["user_packages"] else []
        scripts = ["runscripts/conda-python-simple", "bin/start-shell"] if self.plan.has_bash else []
        files = [self.plan.sif_places, "runscripts/get-master", *scripts, *packed]
        kwargs.setdefault("custom_paths", {"files": files, "dirs": []})
        kwargs.setdefault("custom_commands", start_commands(os.environ, self.plan.trial, warn=warn))
        with boundary():
            self._fit = check_fit(self.plan, os.environ, warn=warn)
        super().sanity_check_step(*args, **kwargs)

    def make_module_description(self):
        """Return help, whatis and packages, all text shown literally."""
        return self.render(render_description, conflict=os.path.dirname(self.short_mod_name))

    def make_module_extra(self, *args, **kwargs):
        """Return EasyBuild's own settings, followed by PATH, image, binds and variables."""
        # not through module_load_environment, which expands the installation directory as a glob pattern
        path = self.module_generator.prepend_paths("PATH", ["bin"])
        return super().make_module_extra(*args, **kwargs) + path + self.render(render_body)

    def render(self, part, **kwargs):
        """Render a part of the module in the syntax in use."""
        with boundary():
            plan, syntax = look_for_notices(self.plan, os.environ), self.module_generator.SYNTAX
            return part(plan, syntax, resources.module_templates(), **kwargs)

    def make_module_step(self, fake=False):
        """Write the module to a private directory and then move it into place, so that it is never incomplete."""
        if not self.dry_run:
            with boundary():
                add_logic(look_for_notices(self.plan, os.environ), resources.runscript_files())
        if fake or self.dry_run:
            return super().make_module_step(fake=fake)
        final = Path(self.mod_filepath)
        clear_leftovers(final.parent, final.name, alone=True)
        self.module_generator.create_symlinks = self.link_module
        try:
            with boundary(), tempfile.TemporaryDirectory() as private:
                written = Path(private, final.name)
                self.mod_filepath = str(written)
                modules = super().make_module_step(fake=fake)
                mkdir(str(final.parent), parents=True)
                content = written.read_bytes()
                # before the module: an installation with a module is complete, and is not repeated
                complete_record(Path(self.installdir), final, content, fit=self._fit)
                write_file(final, content, mode=stat.S_IMODE(written.stat().st_mode))
        finally:
            self.mod_filepath = str(final)
        trace_msg(f"module file in place @ {final}")
        if self._installed and self._installed.method == "central":
            remove_own_copy(self.plan)
        return modules

    def link_module(self, places, fake=False):
        """Link the module in other directories too; EasyBuild's own removes each link first, which a kill may lose."""
        target = self.module_generator.get_module_filepath(fake=fake)
        for place in places:
            link = Path(self.module_generator.get_module_filepath(fake=fake, mod_path_suffix=place))
            if not (link.is_symlink() and os.readlink(link) == target):
                mkdir(str(link.parent), parents=True)
                Tree(link.parent).symlink(link.name, target)

    def permissions_step(self, *args, **kwargs):
        """Set permissions, but keep the user's packages writable under --read-only-installdir."""
        super().permissions_step(*args, **kwargs)
        layer = os.path.join(self.installdir, "user-software")
        if os.path.isdir(layer) and not os.path.islink(layer) and not self.dry_run:
            adjust_permissions(layer, stat.S_IWUSR, add=True, recursive=True)
