"""Modulefiles as their languages interpret them: in Lua and Tcl, every text arrives exactly as written."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.resources import module_templates
from hpcmod.machine.values.tables import ModuleRules
from hpcmod.modules.text.modulefile import render_body, render_description, render_help
from hpcmod.modules.values.install_record import SYNTAXES
from hpcmod.modules.values.plan import InstallPlan
from tests.installations import write_libexec
from tests.plans import HOSTILE, as_shown, as_value, make_plan_of
from tests.stack import ModuleTool

pytestmark = pytest.mark.stack

TOOLS_OWN = ("_ModuleTable", "__LMOD_REF_COUNT", "LMOD_", "LOADEDMODULES", "_LMFILES_", "__MODULES_", "_=")
Calls = list[tuple[str, ...]]

LUA = r"""
local function hex(text)
    return (string.gsub(text, ".", function(c) return string.format("%02x", string.byte(c)) end))
end
local function note(name) return function(...)
    local words = {name}
    for _, word in ipairs({...}) do words[#words + 1] = hex(word) end
    print(table.concat(words, " "))
end end
for _, name in ipairs{"help", "whatis", "conflict", "extensions", "family", "setenv", "LmodMessage"} do
    _G[name] = note(name)
end
function mode() return "load" end
function LmodVersion() return "8.6" end
function convertToCanonical(version) return version end
function isFile(path) local file = io.open(path) if file then file:close() end return file ~= nil end
function isDir(path) return isFile(path .. "/.") end
lfs = {attributes = function(path) return isFile(path) and "file" or nil end}
function prepend_path() end
function LmodError(text) note("error")(text) os.exit(0) end
dofile(arg[1])
"""

TCL = r"""
proc hex {text} { binary scan [encoding convertto utf-8 $text] H* found; return $found }
proc note {name args} { set words $name; foreach word $args { lappend words [hex $word] }; puts [join $words] }
foreach name {module-whatis conflict extensions family setenv} { interp alias {} $name {} note $name }
proc module-info {what args} { return [expr {$args eq "load"}] }
proc prepend-path {args} {}
proc versioncmp {one other} { return 1 }
if {[lindex $argv 1] eq "Lmod"} { set ModuleTool Lmod; set ModuleToolVersion 8.6 }
rename puts real_puts
proc puts {args} { if {[lindex $args 0] eq "stderr"} { note error [lindex $args 1] } else { real_puts {*}$args } }
while 1 {
    if {[catch { source -encoding utf-8 [lindex $argv 0] } said] == 1} { note error $said }
    break
}
ModulesHelp
"""


def understand(plan: InstallPlan, syntax: str, tool: str, tmp_path: Path) -> Calls:
    """Return the calls that the modulefile makes when loaded, with their arguments."""
    templates = module_templates()
    write_libexec(plan)
    module = tmp_path / "modulefile"
    text = render_description(plan, syntax, templates, conflict=plan.spec.description)
    module.write_text(text + render_body(plan, syntax, templates), encoding="utf-8", newline="")
    harness = tmp_path / "harness"
    harness.write_text(LUA if syntax == "Lua" else TCL)
    argv = ["lua5.3" if syntax == "Lua" else "tclsh", str(harness), str(module), tool]
    done = subprocess.run(argv, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    calls = [line.split(" ") for line in done.stdout.decode().splitlines()]
    return [(name, *(bytes.fromhex(word).decode() for word in words)) for name, *words in calls]


def read_environment(path: Path) -> dict[str, str]:
    """Return the variables in a file written by `env -0`, without the module tool's bookkeeping."""
    items = path.read_bytes().decode().split("\0")
    pairs = dict(item.split("=", 1) for item in items if item)
    return {name: text for name, text in pairs.items() if not name.startswith(TOOLS_OWN)}


@pytest.fixture
def plan_of(tmp_path: Path) -> Callable[[str], InstallPlan]:
    """A function that plans the installation of hostile text, in a path that contains as much of it as possible."""

    def make(text: str) -> InstallPlan:
        plan = make_plan_of(text)
        name = as_value(text) if len(text) < 80 else as_value(text)[:40]
        root = tmp_path / "root" / name
        places = tuple(str(directory / f"{name}.sif") for directory in (root, tmp_path / "central"))
        return replace(plan, spec=replace(plan.spec, root=str(root)), own_sif=places[0], sif_places=places)

    return make


SPEAKERS = [("Lua", "Lmod"), ("Tcl", "Lmod"), ("Tcl", "Environment Modules")]
hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
spoken = pytest.mark.parametrize(("syntax", "tool"), SPEAKERS, ids=[" ".join(pair) for pair in SPEAKERS])


@hostile
@spoken
def test_every_text_arrives_as_it_was_written(
    text: str, syntax: str, tool: str, plan_of: Callable[[str], InstallPlan], tmp_path: Path
) -> None:
    plan = plan_of(text)
    sif = Path(plan.own_sif)
    sif.parent.mkdir(parents=True, exist_ok=True)
    sif.touch()
    calls = understand(plan, syntax, tool, tmp_path)
    help_name, whatis = ("help", "whatis") if syntax == "Lua" else ("error", "module-whatis")
    assert (help_name, render_help(plan)) in calls
    assert (whatis, as_shown(f"Description: {' '.join(text.split())}")) in calls
    assert ("conflict", text) in calls
    assert ("setenv", "SIF", str(sif)) in calls
    assert ("setenv", "SIFPYTORCH", str(sif)) in calls
    for name in ("NCCL_SOCKET_IFNAME", "SINGULARITYENV_HOSTILE", "APPTAINERENV_HOSTILE"):
        assert ("setenv", name, as_value(text)) in calls
    if tool == "Lmod":
        assert ("family", as_value(text)) in calls


@hostile
@spoken
def test_the_message_for_a_missing_image_arrives_as_it_was_written(
    text: str, syntax: str, tool: str, plan_of: Callable[[str], InstallPlan], tmp_path: Path
) -> None:
    plan = plan_of(text)
    said = [call[1] for call in understand(plan, syntax, tool, tmp_path) if call[0] == "error"]
    assert plan.sif_places[0] in said[0]
    assert plan.sif_places[1] in said[0]
    assert f"eb {as_value(text)}.eb --rebuild" in said[0]


@hostile
@pytest.mark.parametrize("syntax", SYNTAXES)
def test_a_real_module_tool_loads_it_shows_it_and_starts_nothing(
    text: str, syntax: str, module_env: ModuleTool, plan_of: Callable[[str], InstallPlan], tmp_path: Path
) -> None:
    if syntax == "Lua" and module_env.name != "lmod":
        return
    if (syntax, module_env.name) == ("Tcl", "lmod"):
        text = "".join(c for c in text if c <= "\uffff")  # Lmod's Tcl 8.6 supports no others
    plan = plan_of(text)
    site = plan.site._replace(module=ModuleRules("ai_container"))
    plan = replace(plan, runscripts=plan.runscripts._replace(site=site))
    sif = Path(plan.own_sif)
    sif.parent.mkdir(parents=True, exist_ok=True)
    sif.touch()
    write_libexec(plan)
    modules = tmp_path / "modules"
    (modules / "hostile").mkdir(parents=True)
    module = modules / "hostile" / ("1.lua" if syntax == "Lua" else "1")
    head = "" if syntax == "Lua" else "#%Module\n"
    templates = module_templates()
    described = render_description(plan, syntax, templates, conflict="hostile")
    module.write_text(head + described + render_body(plan, syntax, templates), encoding="utf-8", newline="")
    script = "env -0 > before; module load hostile || exit 1; env -0 > loaded; module unload hostile; env -0 > after"
    done = module_env(script, modules, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before, loaded, after = (read_environment(tmp_path / name) for name in ("before", "loaded", "after"))
    assert after == before
    assert loaded["SIF"] == str(sif)
    assert loaded["NCCL_SOCKET_IFNAME"] == as_value(text)
    assert not list(tmp_path.rglob("pwned"))
    shown = module_env("module help hostile 2>&1", modules, cwd=tmp_path).stdout
    first_line = as_shown(text).strip().splitlines()[0]
    wrapped, written = ("".join(told.replace("`", "").split()) for told in (shown, first_line))
    assert written in wrapped  # Lmod 9 takes a text with several backquotes for Markdown, and drops them
