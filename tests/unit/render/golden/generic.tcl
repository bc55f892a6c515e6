# Lmod reads this file byte by byte but prints characters in UTF-8: without this each byte would be one.
if {[info exists ::ModuleTool] && $::ModuleTool eq "Lmod" && [encoding system] ne "utf-8"} {
    foreach command {setenv pushenv prepend-path puts module-whatis} {
        rename $command bytes_$command
        proc $command args [string map [list COMMAND bytes_$command] {
            set texts {}
            foreach text $args {
                set text [encoding convertfrom utf-8 [encoding convertto [encoding system] $text]]
                # Tcl 8.6 knows no characters beyond these, and would print halves of them
                lappend texts [regsub -all {[\ud800-\udfff]+} $text ?]
            }
            uplevel 1 [list COMMAND {*}$texts]
        }]
    }
}

proc ModulesHelp { } {
    puts stderr "Description\n===========\nPyTorch 2.7.1 for AMD GPUs\n\nUse\n===\nsingularity exec \$SIF conda-python-simple ARGS\n    one process with the image's Python\nsrun ... singularity exec \$SIF conda-python-distributed ARGS\n    one rank of a distributed job\nstart-shell \[COMMAND ARGS\]\n    a shell in the container, or one command\n\$SIF, \$SIFPYTORCH\n    the image\n\$RUNSCRIPTS, \$RUNSCRIPTSPYTORCH\n    the run scripts; inside the container: /runscripts\n\nCommands\n========\npip, python, python3.12, torchrun, start-shell\n\nImage\n=====\nThe first of:\n/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n\nPython packages in the image\n============================\nnumpy 2.1.0, torch 2.7.1+rocm6.2.4, torchvision 0.22.1\n\nLabels of the image\n===================\norg.opencontainers.image.title: PyTorch for LUMI\n\nMore information\n================\nhttps://pytorch.org/"
}

module-whatis "Description: PyTorch 2.7.1 for AMD GPUs"
module-whatis "Homepage: https://pytorch.org/"
module-whatis "Packages: numpy/2.1.0, torch/2.7.1+rocm6.2.4, torchvision/0.22.1"

set root "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"

conflict "PyTorch"

if {[info exists ::ModuleTool] && $::ModuleTool eq "Lmod" && [versioncmp $::ModuleToolVersion 8.2.8] >= 0} {
    extensions "numpy/2.1.0" "torch/2.7.1+rocm6.2.4" "torchvision/0.22.1"
}

# Written by hpcmod. It stands alone: no program is started, no procedure of a site is called.
namespace eval hpcmod {
    # Lmod translates this file; only Environment Modules can set a variable while it unloads.
    variable lmod [expr {[info exists ::ModuleTool] && $::ModuleTool eq "Lmod"}]
    variable unloading [expr {[module-info mode unload] || [module-info mode remove]}]
    variable memory "_HPCMOD_PYTORCH"
    variable state
    array unset state
    array set state {}
    if {$unloading && [info exists ::env($memory)]} {
        foreach word $::env($memory) { lassign [split $word =] name its; set state($name) $its }
    }
}

proc hpcmod::value {name} { if {[info exists ::env($name)]} { return $::env($name) } else { return "" } }

# Environment Modules keeps a variable that it unset, empty, for the rest of its run: a swap or a reload meets it then.
proc hpcmod::exists {name} {
    variable lmod
    if {!$lmod && [module-info mode load] && ![catch {getenv $name \001} found]} { return [expr {$found ne "\001"}] }
    return [info exists ::env($name)]
}

proc hpcmod::saved {name} { variable memory; return ${memory}_SAVED_$name }

# Set a variable while the module is loaded; after that it is, to the byte, what the user had.
proc hpcmod::keep {name value} {
    variable unloading
    if {$unloading} { give_back $name $value } else { take $name $value }
}

proc hpcmod::take {name value} {
    variable lmod
    variable state
    set had [exists $name]
    set state($name) [expr {!$had ? "unset" : $::env($name) eq "" ? "empty" : "value"}]
    if {$state($name) ne "value"} {
        setenv $name $value
    } elseif {$lmod} {
        setenv __LMOD_STACK_$name [base64 $value]:[base64 $::env($name)]
        setenv $name $value
    } else {
        setenv [saved $name] $::env($name)
        setenv $name $value
    }
}

proc hpcmod::give_back {name value} {
    variable lmod
    variable state
    if {![info exists state($name)]} { return }
    switch $state($name) {
        unset { setenv $name "" }
        empty { if {$lmod} { setenv $name $value; give_back_empty $name } else { unsetenv $name "" } }
        value { if {$lmod} { pop $name $value } else { unsetenv $name [value [saved $name]]; setenv [saved $name] "" } }
    }
}

# Lmod's pushenv in Tcl saves the new value instead of the old one, so take writes the stack and pushenv only pops.
proc hpcmod::pop {name value} {
    pushenv $name $value
    setenv __LMOD_STACK_$name ""
}

proc hpcmod::base64 {text} { return [binary encode base64 [encoding convertto [encoding system] $text]] }

# Lmod cannot set a variable while unloading, so the shell does, unless it is set again by then.
proc hpcmod::give_back_empty {name} {
    switch [module-info shell] {
        csh - tcsh { puts stdout "if (! \$?$name) setenv $name ''" }
        fish { puts stdout "set -q $name; or set -gx $name ''" }
        default { puts stdout "\[ -n \"\${$name+set}\" \] || export $name=" }
    }
}

# Set variables only where the user has none of them; taken away again only if it was us, and the user changed nothing.
proc hpcmod::default {names value} {
    variable unloading
    variable state
    set free 1
    foreach name $names { if {[exists $name]} { set free 0 } }
    foreach name $names {
        if {!$unloading && $free} { set state($name) ours }
        if {![info exists state($name)] || $state($name) ne "ours"} { continue }
        if {!$unloading} { setenv $name $value } elseif {[value $name] eq $value} { setenv $name "" }
    }
}

# Put entries before what the user has in a pair of lists, and keep the two equal: Apptainer drops one when they differ.
proc hpcmod::lead {names entries separator} {
    variable unloading
    variable memory
    set value [join $entries $separator]
    set note ${memory}_[lindex $names 0]
    set set [expr {$unloading && [info exists ::env($note)] ? $::env($note) : $value}]
    foreach name $names {
        if {$unloading && [value $name] ne $set} { withdraw $name $entries $separator } else { keep $name $value }
    }
    setenv $note $value
}

# The user changed the list after we set it: only our entries go.
proc hpcmod::withdraw {name entries separator} {
    variable lmod
    if {$lmod} {
        # Lmod writes the entry between quotes of Lua as it is, where a backslash begins an escape.
        foreach entry $entries { prepend-path -d $separator $name [string map {\\ \\\\} $entry] }
        return
    }
    set rest {}
    foreach element [elements [value $name] $separator] {
        if {$element ni $entries} { lappend rest $element }
    }
    setenv [saved $name] ""
    if {[llength $rest]} { unsetenv $name [join $rest $separator] } else { setenv $name "" }
}

# The elements of a list, `\,` being no end of one.
proc hpcmod::elements {text separator} {
    set found {}
    foreach element [split [string map [list \\$separator \001] $text] $separator] {
        if {$element ne ""} { lappend found [string map [list \001 \\$separator] $element] }
    }
    return $found
}

proc hpcmod::remember {} {
    variable memory
    variable state
    set words {}
    foreach name [lsort [array names state]] { lappend words $name=$state($name) }
    setenv $memory [join $words]
}

proc hpcmod::destination {bind} {
    lassign [split [string map [list \\: \001] $bind] :] source place
    if {$place eq ""} { set place $source }
    return [expr {[string length $place] > 1 ? [string trimright $place /] : $place}]
}

# Elements of both names' lists, each destination once, and none that is in taken.
proc hpcmod::union {names separator key takenname} {
    upvar $takenname taken
    set found {}
    foreach name $names {
        foreach element [elements [value $name] $separator] {
            set place [expr {$key eq "" ? $element : [$key $element]}]
            if {![info exists taken($place)]} { lappend found $element }
            set taken($place) 1
        }
    }
    return $found
}

proc hpcmod::escaped {path} { return [string map {: \\: , \\,} $path] }

proc hpcmod::add_bind {source place options} {
    variable ours
    variable taken
    variable unfit
    variable linked
    if {[regexp {[\x01-\x1f\x7f]} $source] || [regexp {\\[:,]} $source:]} {
        lappend unfit [regsub -all {[\x01-\x1f\x7f]} $source ?]
        return
    }
    set text [escaped $source]
    if {$place ne "" || $options ne ""} { append text : [escaped [expr {$place eq "" ? $source : $place}]] }
    if {$options ne ""} { append text : $options }
    if {[info exists taken([destination $text])]} { return }
    set taken([destination $text]) 1
    lappend ours $text
    if {$place eq "" && [file isdirectory $source]} { lappend linked $source }
}

# Of each group at most one: the first that exists here and whose destination the user has not given away.
proc hpcmod::choose {candidates} {
    variable missing
    foreach group $candidates {
        set found 0
        foreach bind $group {
            lassign $bind source place options required pattern
            if {!$found && $source ne "" && [file exists $source]} {
                set found 1
                add_bind $source $place $options
            }
        }
        lassign [lindex $group 0] source place options required
        if {!$found && $required} { lappend missing $source }
    }
}

# A link into another tree: what the links in it lead to is to be seen where they say, unless that would hide the image's own.
proc hpcmod::follow_links {} {
    variable taken
    variable linked
    foreach source $linked {
        set place [file dirname [file normalize [file join $source x]]]
        set shown [expr {[lindex [split $place /] 1] in {"" usr bin sbin lib lib64 etc dev proc sys}}]
        set parent ""
        foreach part [lrange [split $place /] 1 end] {
            append parent / $part
            if {[info exists taken($parent)]} { set shown 1 }
        }
        if {!$shown} { add_bind $place "" "" }
    }
}

proc hpcmod::binds {candidates} {
    variable unloading
    variable memory
    variable state
    variable ours {}
    variable taken
    variable missing {}
    variable unfit {}
    variable linked {}
    array unset taken
    array set taken {}
    set bind_names {SINGULARITY_BIND APPTAINER_BIND}
    set bindpath_names {SINGULARITY_BINDPATH APPTAINER_BINDPATH}
    set bind_user [expr {$unloading ? {} : [union $bind_names , destination taken]}]
    set bindpath_user [expr {$unloading ? {} : [union $bindpath_names , destination taken]}]
    if {$unloading} {
        set count [expr {[info exists state(BINDS)] ? $state(BINDS) : 0}]
        set ours [lrange [elements [value ${memory}_[lindex $bindpath_names 0]] ,] 0 [expr {$count - 1}]]
    } elseif {[module-info mode load] || [module-info mode display]} {
        choose $candidates
        set chosen $ours
        set ours {}
        # these first, lest they hide what is bound inside them
        follow_links
        lappend ours {*}$chosen
        set state(BINDS) [llength $ours]
    }
    if {[module-info mode load] && [llength $missing]} {
        puts stderr "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: not on this node, so not bound: [join $missing {, }]"
    }
    if {[module-info mode load] && [llength $unfit]} {
        puts stderr "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: no bind can hold such a name, so not bound: [join $unfit {, }]"
    }
    if {[llength $missing] || [info exists ::env(${memory}_MISSING)]} { setenv ${memory}_MISSING [join $missing ,] }
    lead $bindpath_names [concat $ours $bindpath_user] ,
    # Of a pair of which one is set, be it to nothing, Apptainer complains.
    set paired [info exists state(SINGULARITY_BIND)]
    if {!$unloading} { foreach name $bind_names { if {[exists $name]} { set paired 1 } } }
    if {$paired} { lead $bind_names $bind_user , }
}

proc hpcmod::container_path {entries} {
    variable unloading
    array set taken {}
    set names {SINGULARITYENV_PREPEND_PATH APPTAINERENV_PREPEND_PATH}
    set user [expr {$unloading ? {} : [union $names : {} taken]}]
    lead $names [concat $entries $user] :
}

# The image: the user's own copy, else the site's.
proc hpcmod::sif {places} {
    foreach place $places { if {[file isfile $place]} { return $place } }
    return ""
}

# Lmod makes room for a second module of a family by loading it, unloading both, and loading it once more. The first time
# the variables are still the other's, so nothing is done, and nothing undone.
set hpcmod_me "ai_container PyTorch/2.7.1-rocm-6.2.4-singularity"
set hpcmod_other [expr {[module-info mode load] ? [hpcmod::value _HPCMOD_CONTAINER] : ""}]
if {[info commands family] ne ""} { family "ai_container" }
if {$hpcmod_other ni [list "" $hpcmod_me]} {
    if {$hpcmod::lmod && [lrange $hpcmod_other 0 end-1] eq "ai_container"} { return }
    set hpcmod_said "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: the container module [lindex $hpcmod_other end] is loaded; unload it first"
    if {$hpcmod::lmod} { error $hpcmod_said }
    puts stderr $hpcmod_said
    break
}
if {$hpcmod::lmod && $hpcmod::unloading && ![info exists ::env($hpcmod::memory)]} { return }
setenv _HPCMOD_CONTAINER [expr {$hpcmod::unloading ? "" : $hpcmod_me}]

set hpcmod_places [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif"]
set hpcmod_sif [hpcmod::sif $hpcmod_places]
if {$hpcmod_sif eq "" && [module-info mode load]} {
    if {$hpcmod::lmod} { error "PyTorch/2.7.1-rocm-6.2.4-singularity: its image was not found in any of these locations:\n  /project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\nReinstall it with: eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb --rebuild" }
    puts stderr "PyTorch/2.7.1-rocm-6.2.4-singularity: its image was not found in any of these locations:\n  /project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\nReinstall it with: eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb --rebuild"
    break
}
if {$hpcmod_sif eq ""} { set hpcmod_sif [lindex $hpcmod_places 0] }
hpcmod::keep SIF $hpcmod_sif
hpcmod::keep "SIFPYTORCH" $hpcmod_sif
hpcmod::keep "RUNSCRIPTS" "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts"
hpcmod::keep "RUNSCRIPTSPYTORCH" "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts"
hpcmod::keep "CONTAINERROOT" "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"
hpcmod::default [list "SINGULARITYENV_VIRTUAL_ENV" "APPTAINERENV_VIRTUAL_ENV"] "/user-software/venv/pytorch"
hpcmod::default [list "SINGULARITYENV_WITH_VENV" "APPTAINERENV_WITH_VENV"] "true"
hpcmod::default [list "SINGULARITYENV_WITH_CONDA_VENV" "APPTAINERENV_WITH_CONDA_VENV"] "true"
# The host's Python stays outside, but for the variables that HPCMOD_KEEP_ENV names.
foreach {hpcmod_name hpcmod_value} [list "PYTHONPATH" "" "PYTHONHOME" "" "PYTHONSTARTUP" "" "LD_PRELOAD" "" "CONDA_PREFIX" "" "CONDA_DEFAULT_ENV" "" "CONDA_EXE" "" "CONDA_PYTHON_EXE" "" "CONDA_SHLVL" "" "CONDA_PROMPT_MODIFIER" "" "_CE_CONDA" "" "_CE_M" "" "PYTHONNOUSERSITE" "1"] {
    if {$hpcmod::unloading || $hpcmod_name ni [split [hpcmod::value HPCMOD_KEEP_ENV]]} {
        hpcmod::default [list SINGULARITYENV_$hpcmod_name APPTAINERENV_$hpcmod_name] $hpcmod_value
    }
}

# Binds: Apptainer does not start when a source is missing, so only what exists on this node. The user's come last and win.
# Source, destination or nothing, options, whether it is required.
hpcmod::binds [list \
    [list [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts" "/runscripts" "" 0]] \
    [list [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software.squashfs" "/user-software" "image-src=/" 0] [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software" "/user-software" "" 0]] \
]
hpcmod::container_path [list "/runscripts" "/user-software/venv/pytorch/bin" "/opt/miniconda3/envs/pytorch/bin"]
hpcmod::remember
