"""Recipes in the formats of LUMI, singularity-hpc and NGC, each with one construct, and the expected import report.

Written for these tests from the formats' documentation and the constructs counted in real collections: 70 easyconfigs,
301 recipes and 52 modules. None is a copy. An expected text is part of a line in the report.
"""

from __future__ import annotations

from dataclasses import dataclass

A, B, C = (f"sha256:{letter * 64}" for letter in "abc")


@dataclass(frozen=True)
class Case:
    """A recipe, and its expected report."""

    text: str
    lost: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    refused: str = ""
    """Part of the reason; empty if it is converted."""
    others: tuple[tuple[str, str], ...] = ()
    """Other files in the same directory: name and text."""


_LUMI = """\
easyblock = 'MakeCp'
local_version = '1.2'
name = 'Tool'
version = local_version
versionsuffix = '-singularity-20250101'
homepage = 'https://example.org'
description = "A tool"
toolchain = SYSTEM
local_sif = f'tool-v{local_version}.sif'
sources = [{'filename': local_sif, 'extract_cmd': '/bin/cp -L %s .'}]
skipsteps = ['build']
files_to_copy = [([local_sif], '.')]
moduleclass = 'devel'
"""
_ROOT = "%(installdir)s"
_WRAPPER = 'singularity exec $SIFTOOL \\$(basename "\\$0") "\\$@"'


def _lumi(more: str, **expected: object) -> Case:
    return Case(f"{_LUMI}{more}\n", **expected)  # type: ignore[arg-type]


def _variable(name: str, value: str, **expected: object) -> Case:
    return _lumi(f"modextravars = {{{name!r}: {value!r}}}", **expected)


def _commands(*commands: str, **expected: object) -> Case:
    return _lumi(f"postinstallcmds = {list(commands)!r}", **expected)


def _script(path: str, text: str) -> str:
    return f"cat >{_ROOT}/{path} <<EOF\n#!/bin/bash\n{text}\nEOF\n"


LUMI = {
    "plain": _lumi("", carried=("name", "version", "versionsuffix", "image", "homepage", "description", "moduleclass")),
    "docurls": _lumi("docurls = ['https://example.org/docs']", carried=("docurls",)),
    "whatis": _lumi("whatis = ['Description: x', 'Keywords: y']", carried=("whatis",)),
    "usage": _lumi("usage = 'tool -h'\nexamples = 'tool x'\nciting = 'y'", carried=("usage", "examples", "citing")),
    "contacts": _lumi("site_contacts = 'a@example.org'\nupstream_contacts = ['b']", carried=("site_contacts",)),
    "docpaths": _lumi("docpaths = ['share/x']", carried=("docpaths",)),
    "licences": _lumi("software_license_urls = ['https://example.org/l']", carried=("software_license_urls",)),
    "checksum": _lumi(f"checksums = [{'a' * 64!r}]", carried=("checksum",)),
    "variable": _variable("NCCL_NET_GDR_LEVEL", "3", carried=("modextravars",)),
    "variable of the installation": _variable("TOOL_DATA", f"{_ROOT}/data", carried=("modextravars",)),
    "preload": _variable("SINGULARITYENV_LD_PRELOAD", "/opt/x/libp.so", carried=("the variable LD_PRELOAD",)),
    "our variables": _variable("RUNSCRIPTSTOOL", f"{_ROOT}/runscripts"),
    "path of ours": _variable("SINGULARITYENV_PREPEND_PATH", "/runscripts:/user-software/venv/tool/bin"),
    "path of conda": _variable(
        "SINGULARITYENV_PREPEND_PATH",
        "/runscripts:/opt/miniconda3/condabin",
        lost=("/opt/miniconda3/condabin on PATH",),
    ),
    "empty path": _variable("SINGULARITYENV_PREPEND_PATH", "/runscripts::", changed=("the empty element of PATH",)),
    "activation": _variable("SINGULARITYENV_WITH_CONDA_VENV", "source /runscripts/x", changed=("WITH_CONDA_VENV",)),
    "evaluated variable": _variable(
        "SINGULARITYENV_CACHE", "$HOME/x", lost=("export SINGULARITYENV_CACHE=",), carried=("name",)
    ),
    "prompt": _variable("SINGULARITYENV_PS1", "[\\u] ", lost=("the variable PS1 of the container",)),
    "number": _lumi("modextravars = {1: 'x'}", lost=("the variable 1",)),
    "binds in a variable": _variable("SINGULARITY_BIND", "/pfs,/a:/b", carried=("the bind /pfs", "the bind /a:/b")),
    "binds in the footer": _lumi(
        'modluafooter = """create_container_vars( '
        "'tool.sif', 'Tool', '%(installdir)s', '/usr/lib64/libj.so.4' )\"\"\"",
        carried=("the bind /usr/lib64/libj.so.4",),
    ),
    "prepended binds": _lumi(
        "modluafooter = \"\"\"prepend_path('SINGULARITY_BIND', '/x', ',')\"\"\"", carried=("the bind /x",)
    ),
    "conflict": _lumi("modluafooter = \"conflict('other')\"", carried=("modluafooter",)),
    "code of a site": _lumi("modluafooter = 'site_call(1)'", lost=("calls site_call",)),
    "tcl footer": _lumi("modtclfooter = 'conflict x'", carried=("modtclfooter",)),
    "aliases and messages": _lumi(
        "modaliases = {'t': 'tool'}\nmodloadmsg = 'hello'\nmodextrapaths = {'P': ['x']}",
        carried=("modaliases", "modloadmsg", "modextrapaths"),
    ),
    "check": _lumi("sanity_check_commands = ['python -V']", carried=("sanity_check_commands",)),
    "check with words": _lumi(
        "sanity_check_commands = [('python', '-V')]", lost=("the sanity check ('python', '-V')",)
    ),
    "checked paths": _lumi(
        "sanity_check_paths = {'files': [], 'dirs': ['runscripts']}", changed=("sanity_check_paths",)
    ),
    "wrappers": _commands(
        f"mkdir -p {_ROOT}/bin",
        _script("bin/python", _WRAPPER),
        f"chmod a+x {_ROOT}/bin/python",
        f"ln -s ./python {_ROOT}/bin/pip",
        changed=("the commands on PATH",),
        carried=("the command python", "the command pip"),
    ),
    "our scripts": _commands(_script("bin/start-shell", "singularity exec $SIF bash"), changed=("bin/start-shell",)),
    "a script of its own": _commands(_script("runscripts/tool-setup", "echo"), carried=("postinstallcmds",)),
    "packages": _commands(
        f"cat >{_ROOT}/requirements.txt <<EOF\neinops\nEOF",
        "singularity exec x.sif bash -c 'pip install -r requirements.txt'",
        lost=("the shell command after the installation: singularity exec",),
        carried=("user_packages",),
    ),
    "venv": _commands(f"cd {_ROOT} && singularity exec x.sif python -m venv --system-site-packages v"),
    "other commands": _commands(
        "tar -xf data.tar", lost=("the shell command after the installation: tar -xf data.tar",)
    ),
    "definition": _commands("singularity build --force a.sif b.def", refused="builds its image"),
    "docker file": _lumi("sources += ['tool.docker']", lost=("hpcmod installs the image alone",)),
    "dependencies": _lumi("dependencies = [('x', '1')]", lost=("dependencies: [('x', '1')]",)),
    "builddependencies": _lumi("builddependencies = [('x', '1')]", lost=("nothing is built",)),
    "unknown parameter": _lumi("colour = 'green'", lost=("colour: 'green'",)),
    "computed": _lumi("modextravars = {**nowhere}", lost=("modextravars, which only running the file",)),
    "computed version": _lumi("version = open('x').read()", refused="its version cannot be determined"),
    "split version": _lumi("versionsuffix = '-' + '.'.join('6.2.4'.split('.')[:2])", carried=("versionsuffix",)),
    "no image": _lumi("sources = ['x.tar.gz']", refused="must be a single SIF"),
    "two images": _lumi("sources = ['a.sif', 'b.sif']", refused="must be a single SIF, found: a.sif, b.sif"),
    "software": Case(
        "easyblock = 'ConfigureMake'\nname = 'x'\nversion = '1'\nsources = [f'{nowhere}.tar.gz']\n",
        refused="it has no container image: EasyBuild installs it with the easyblock ConfigureMake",
    ),
    "joined binds": _lumi(
        "local_binds = ['/a', '/b:/c']\n"
        "modluafooter = f\"prepend_path('SINGULARITY_BIND', '{','.join(local_binds)}')\"",
        carried=("the bind /a", "the bind /b:/c"),
    ),
    "class of a site": _lumi("moduleclass = 'climate'", changed=("moduleclass: 'ai' instead of 'climate'",)),
    "long help": _lumi("description = '''One.\n\nTwo.\n'''", carried=("description",)),
}
"""Cases by construct; all are Tool/1.2-singularity-20250101 unless they override that."""

_SHPC = f"""\
docker: quay.io/org/tool
url: https://example.org
description: A tool
latest: {{"2.0": {A}}}
tags: {{"2.0": {A}}}
"""
_USUAL = ("instead of the commands of every module of singularity-hpc", "$SINGULARITY_CONTAINER")
"""Changes reported for every singularity-hpc recipe."""


def _shpc(more: str, *, text: str = _SHPC, **expected: object) -> Case:
    if "refused" not in expected:
        expected["changed"] = (*_USUAL, *expected.get("changed", ()))  # type: ignore[misc]
    return Case(f"{text}{more}\n", **expected)  # type: ignore[arg-type]


SHPC = {
    "plain": _shpc("", carried=("name", "version", "image", "homepage", "description")),
    "maintainer": _shpc("maintainer: '@me'", carried=("upstream_contacts",)),
    "alias with a path": _shpc("aliases: {py: /opt/x/python}", carried=("the command py",)),
    "alias with arguments": _shpc("aliases: {fork: '/code/tool fork --x \"a b\"'}", carried=("the command fork",)),
    "listed alias": _shpc("aliases: [{name: a, command: /a}]", carried=("the command a",)),
    "alias with options": _shpc(
        "aliases: [{name: a, command: /a, singularity_options: '--nv --cleanenv'}]",
        lost=("singularity_options of the alias a: --nv --cleanenv",),
        carried=("the command a",),
    ),
    "alias of shell": _shpc("aliases: {p: 'shuf -n $(shuf -i 1-9)'}", lost=("the alias p, which needs a shell",)),
    "relative alias": _shpc("aliases: {a: opt/bin/a}", lost=("the alias a, which runs neither",)),
    "empty alias": _shpc("aliases: {a: ''}", lost=("the alias a, which runs nothing",)),
    "alias of the host": _shpc("aliases: {module: /bin/module}", lost=("the command module, which would hide",)),
    "alias with an odd name": _shpc("aliases: {'a/b': /a}", lost=("the command 'a/b'",)),
    "unclosed quote": _shpc('aliases: {a: "/a \'x"}', lost=("the alias a, which cannot be parsed",)),
    "variable": _shpc("env: {A: b c}", carried=("the variable A",)),
    "empty variable": _shpc("env: {A: ''}", carried=("the variable A",)),
    "evaluated variable": _shpc("env: {A: '$HOME/x'}", lost=("export SINGULARITYENV_A=",)),
    "path": _shpc("env: {PATH: /x}", lost=("PATH is set by the module",)),
    "gpu": _shpc("features: {gpu: true}"),
    "home": _shpc("features: {home: ~/x}", lost=("features: home (~/x)",)),
    "x11": _shpc("features: {x11: true}", lost=("features: x11 (true)",)),
    "x11 off": _shpc("features: {x11: false}"),
    "filter": _shpc("filter: ['2.*']", lost=("filter",)),
    "test": _shpc("test: |\n  tool --version", lost=("programs of the recipe: test: tool --version",)),
    "scripts": _shpc("singularity_scripts: {post: x.sh}", lost=("singularity_scripts: post: x.sh",)),
    "unknown key": _shpc("colour: green", lost=("unknown keys: colour",)),
    "override": _shpc(
        "aliases: {a: /a}\noverrides: {'2.0': new.yaml}",
        others=(("new.yaml", "aliases: {b: /b}\n"),),
        carried=("the command b",),
    ),
    "missing override": _shpc("overrides: {'2.0': gone.yaml}", lost=("overrides for this tag",)),
    "oras": _shpc("", text=_SHPC.replace("docker: quay.io", "oras: ghcr.io"), carried=("image",)),
    "docker hub": _shpc("", text=_SHPC.replace("quay.io/org", "org")),
    "same latest": _shpc(f"tags: {{'2.0': {A}, latest: {A}}}", text=_SHPC.partition("tags")[0]),
    "moving latest": _shpc("", text=f"docker: quay.io/org/tool\nlatest: {{latest: {A}}}\n"),
    "latest without digest": _shpc("", text="docker: a/tool\nlatest: {latest: }\n", refused="the tag latest without"),
    "no digest": _shpc("", text='docker: a/tool\nlatest: {"1": }\n'),
    "error page": _shpc("", text="docker: a/tool\nlatest: {'<html>': x}\n", refused="is not a valid tag"),
    "bad digest": _shpc("", text="docker: a/tool\nlatest: {'1': x}\n", refused="is not a valid digest"),
    "release": _shpc("", text="gh: a/tool\nlatest: {'1': x}\n", refused="a release on GitHub"),
    "file": _shpc("", text="path: x.sif\nlatest: {'1': x}\n", refused="hpcmod import sif"),
}
"""Cases by construct; all are tool/2.0 unless they override the tags."""

_NGC = """\
help([[text]])
whatis("Name: Tool")
whatis("Version: 1.0")
whatis("Description: A tool")
whatis("URL: https://example.org")
local image = "nvcr.io_hpc_tool:1.0.sif"
local uri = "docker://nvcr.io/hpc/tool:1.0"
local programs = {"tool", "tool2"}
local entrypoint_args = ""
local singularity = capture("which singularity | head -c -1")
local container_launch = singularity .. " exec --nv " .. image .. " " .. entrypoint_args
for i,program in pairs(programs) do
        set_shell_function(program, container_launch .. " " .. program .. " \\"$@\\"")
end
"""
_FUNCTIONS = "commands are programs on PATH"


def _ngc(more: str, *edits: tuple[str, str], **expected: object) -> Case:
    text = _NGC
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    if "refused" not in expected:
        expected["changed"] = (_FUNCTIONS, *expected.get("changed", ()))  # type: ignore[misc]
    return Case(f"{text}{more}\n", **expected)  # type: ignore[arg-type]


_RUN = (" exec --nv ", " run --nv ")

NGC = {
    "plain": _ngc("", carried=("image", "description", "homepage", "the command tool", "the command tool2")),
    "entry point": _ngc("", _RUN),
    "arguments": _ngc(
        "",
        _RUN,
        ('entrypoint_args = ""', 'entrypoint_args = "-c x"'),
    ),
    "arguments of exec": _ngc("", ('_args = ""', '_args = "-c"'), lost=("arguments of the entry point",)),
    "options": _ngc("", ("--nv ", "--nv --pwd /w "), lost=("options of the runtime: --pwd /w",)),
    "plain bind": _ngc('append_path("SINGULARITY_BINDPATH", "/x:/y", ",")', carried=("the bind /x:/y",)),
    "bind of home": _ngc(
        'append_path("SINGULARITY_BINDPATH", os.getenv("HOME") .. ":/w", ",")',
        lost=("the variable SINGULARITY_BINDPATH",),
    ),
    "bind of home as text": _ngc('setenv("SINGULARITY_BIND", "$HOME:/w")', lost=("the variable SINGULARITY_BIND",)),
    "container variable": _ngc('setenv("SINGULARITYENV_A", "b")', carried=("the variable A",)),
    "variable": _ngc('setenv("A", "b")', carried=("modextravars",)),
    "computed variable": _ngc('setenv("A", x .. "b")', lost=("the variable A, ",)),
    "path": _ngc('prepend_path("PATH", "/opt/bin")', lost=("the variable PATH, ",)),
    "conflict": _ngc('conflict(myModuleName(), "other")', carried=("modluafooter",)),
    "module": _ngc('load("Singularity")', changed=('load("Singularity")',)),
    "message": _ngc('LmodMessage("pulling " .. image)', changed=("NGC_IMAGE_DIR is not read",)),
    "other code": _ngc('os.execute("x")\nb = 1', lost=('2 other lines of Lua: os.execute("x"); b = 1',)),
    "no programs": Case(_NGC.replace('local programs = {"tool", "tool2"}\n', ""), lost=("list of programs not found",)),
    "command of the host": _ngc("", ('"tool2"', '"bash"'), lost=("the command bash",)),
    "digest": _ngc("", ('tool:1.0"\nlocal programs', f'tool@{A}"\nlocal programs')),
    "moving": _ngc("", ("hpc/tool:1.0", "hpc/tool:latest"), refused="the tag latest without"),
    "no image": Case('setenv("A", "b")\n', refused="image not found"),
}
"""Cases by construct; all are tool/1.0."""
