# Lmod reads this file as bytes but prints UTF-8: without this, each byte would become a character.
if {[info exists ::ModuleTool] && $::ModuleTool eq "Lmod" && [encoding system] ne "utf-8"} {
    foreach command {setenv pushenv prepend-path puts module-whatis} {
        rename $command bytes_$command
        proc $command args [string map [list COMMAND bytes_$command] {
            set texts {}
            foreach text $args {
                set text [encoding convertfrom utf-8 [encoding convertto [encoding system] $text]]
                # Tcl 8.6 has no characters above U+FFFF and would print surrogates
                lappend texts [regsub -all {[\ud800-\udfff]+} $text ?]
            }
            uplevel 1 [list COMMAND {*}$texts]
        }]
    }
}

proc ModulesHelp { } {
    puts stderr "Description\n===========\nPyTorch 2.7.1 for AMD GPUs\n\nUse\n===\nsingularity exec \$SIF conda-python-simple ARGS\n    one process with the image's Python\nsrun ... singularity exec \$SIF conda-python-distributed ARGS\n    one rank of a distributed job\nstart-shell \[COMMAND ARGS\]\n    a shell in the container, or one command\n\$SIF, \$SIFPYTORCH\n    the image\n\$RUNSCRIPTS, \$RUNSCRIPTSPYTORCH\n    the run scripts; inside the container: /runscripts\n\nCommands\n========\npip, python, python3.12, torchrun, start-shell\n\nImage\n=====\nThe first of:\n/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n\nPython packages in the image\n============================\nnumpy 2.1.0, torch 2.7.1+rocm6.2.4, torchvision 0.22.1\n\nImage labels\n============\norg.opencontainers.image.title: PyTorch for LUMI\n\nMore information\n================\nhttps://pytorch.org/"
}

module-whatis "Description: PyTorch 2.7.1 for AMD GPUs"
module-whatis "Homepage: https://pytorch.org/"
module-whatis "Packages: numpy/2.1.0, torch/2.7.1+rocm6.2.4, torchvision/0.22.1"
if {[info exists ::ModuleTool] && $::ModuleTool eq "Lmod" && [versioncmp $::ModuleToolVersion 8.2.8] >= 0} {
    extensions "numpy/2.1.0" "torch/2.7.1+rocm6.2.4" "torchvision/0.22.1"
}

set root "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"

conflict "PyTorch"

# Written by hpcmod. Self-contained: it starts no program and calls no site-specific procedure.
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

# Environment Modules keeps a variable that it unset as an empty one until the end of its run, as in a swap or a reload.
proc hpcmod::exists {name} {
    variable lmod
    if {!$lmod && [module-info mode load] && ![catch {getenv $name \001} found]} { return [expr {$found ne "\001"}] }
    return [info exists ::env($name)]
}

proc hpcmod::saved {name} { variable memory; return ${memory}_SAVED_$name }

# Set a variable while the module is loaded; unloading restores the user's value exactly.
proc hpcmod::override {name value} {
    variable unloading
    if {$unloading} { restore $name $value } else { save_and_set $name $value }
}

proc hpcmod::save_and_set {name value} {
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

proc hpcmod::restore {name value} {
    variable lmod
    variable state
    if {![info exists state($name)]} { return }
    switch $state($name) {
        unset { setenv $name "" }
        empty { if {$lmod} { setenv $name $value; restore_empty $name } else { unsetenv $name "" } }
        value { if {$lmod} { pop $name $value } else { unsetenv $name [value [saved $name]]; setenv [saved $name] "" } }
    }
}

# Lmod's pushenv in Tcl saves the new value instead of the old one, so save_and_set writes the stack and pushenv only pops.
proc hpcmod::pop {name value} {
    pushenv $name $value
    setenv __LMOD_STACK_$name ""
}

proc hpcmod::base64 {text} { return [binary encode base64 [encoding convertto [encoding system] $text]] }

# Lmod cannot set variables while unloading, so the shell does, unless another module has set it by then.
proc hpcmod::restore_empty {name} {
    switch [module-info shell] {
        csh - tcsh { puts stdout "if (! \$?$name) setenv $name ''" }
        fish { puts stdout "set -q $name; or set -gx $name ''" }
        default { puts stdout "\[ -n \"\${$name+set}\" \] || export $name=" }
    }
}

# Set variables unless the user has set one of them; unload them only if they still have our value.
proc hpcmod::set_default {names value} {
    variable unloading
    variable state
    if {[info exists state(ADDITIONAL)]} { return }
    set free 1
    foreach name $names { if {[exists $name]} { set free 0 } }
    foreach name $names {
        if {!$unloading && $free} { set state($name) ours }
        if {![info exists state($name)] || $state($name) ne "ours"} { continue }
        if {!$unloading} { setenv $name $value } elseif {[value $name] eq $value} { setenv $name "" }
    }
}

# Prepend entries to a pair of lists and keep the two equal: if they differ, Apptainer ignores one of them.
proc hpcmod::prepend {names entries separator} {
    variable unloading
    variable memory
    variable state
    if {[info exists state(ADDITIONAL)]} { return }
    set value [join $entries $separator]
    set note ${memory}_[lindex $names 0]
    set set [expr {$unloading && [info exists ::env($note)] ? $::env($note) : $value}]
    foreach name $names {
        if {$unloading && [value $name] ne $set} { remove_entries $name $entries $separator } else { override $name $value }
    }
    setenv $note $value
}

# Remove only our entries from a list that the user has changed since we set it.
proc hpcmod::remove_entries {name entries separator} {
    variable lmod
    if {$lmod} {
        # Lmod copies the entry unescaped into a Lua string, where a backslash starts an escape sequence.
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

# Split a list into its elements; `\,` does not end an element, and options of a bind are separated by commas too.
proc hpcmod::elements {text separator} {
    set found {}
    foreach element [split [string map [list \\$separator \001] $text] $separator] {
        if {$element eq ""} { continue }
        set element [string map [list \001 \\$separator] $element]
        if {$separator eq "," && [llength $found] && [regexp {^(ro|rw)$|^(image-src|id)=} $element]} {
            set found [concat [lrange $found 0 end-1] [list "[lindex $found end],$element"]]
        } else {
            lappend found $element
        }
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

# Merge the lists of both names: each destination once, without those in taken.
proc hpcmod::union {names separator key takenname} {
    upvar $takenname taken
    set merged {}
    foreach name $names {
        foreach element [elements [value $name] $separator] {
            set place [expr {$key eq "" ? $element : [$key $element]}]
            if {![info exists taken($place)]} { lappend merged $element }
            set taken($place) 1
        }
    }
    return $merged
}

proc hpcmod::escaped {path} { return [string map {: \\: , \\,} $path] }

proc hpcmod::add_bind {source place options} {
    variable ours
    variable taken
    variable unbindable
    variable linked
    if {[regexp {[\x01-\x1f\x7f]} $source] || [regexp {\\[:,]} $source:]} {
        lappend unbindable [regsub -all {[\x01-\x1f\x7f]} $source ?]
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

# From each group, choose the first that exists here, unless the user has bound its destination.
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

# Bind the target of a symbolic link too, so that links below it resolve, unless that would hide the image's own files.
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
    variable unbindable {}
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
    } elseif {([module-info mode load] || [module-info mode display]) && ![info exists state(ADDITIONAL)]} {
        choose $candidates
        set chosen $ours
        set ours {}
        # these first, so that they do not hide other binds inside them
        follow_links
        lappend ours {*}$chosen
        set state(BINDS) [llength $ours]
    }
    if {[module-info mode load] && [llength $missing]} {
        puts stderr "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: not bound, missing on this node: [join $missing {, }]"
    }
    if {[module-info mode load] && [llength $unbindable]} {
        puts stderr "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: not bound, unsupported characters in the path: [join $unbindable {, }]"
    }
    if {[llength $missing] || [info exists ::env(${memory}_MISSING)]} { setenv ${memory}_MISSING [join $missing ,] }
    prepend $bindpath_names [concat $ours $bindpath_user] ,
    # Apptainer warns if only one of a pair is set, even if empty.
    set paired [info exists state(SINGULARITY_BIND)]
    if {!$unloading} { foreach name $bind_names { if {[exists $name]} { set paired 1 } } }
    if {$paired} { prepend $bind_names $bind_user , }
}

proc hpcmod::container_path {entries} {
    variable unloading
    variable state
    array set taken {}
    if {!$unloading} { set state(PATHS) [llength $entries] }
    set names {SINGULARITYENV_PREPEND_PATH APPTAINERENV_PREPEND_PATH}
    set user [expr {$unloading ? {} : [union $names : {} taken]}]
    prepend $names [concat $entries $user] :
}

# The image: the user's private copy, or the site's.
proc hpcmod::sif {places} {
    foreach place $places { if {[file isfile $place]} { return $place } }
    return ""
}

set hpcmod_this "ai_container PyTorch/2.7.1-rocm-6.2.4-singularity"
# Only one container with a whole Python environment, unless HPCMOD_SEVERAL=1: their commands have the same names.
set hpcmod_several [expr {$hpcmod::unloading ? [info exists hpcmod::state(SEVERAL)] : [hpcmod::value HPCMOD_SEVERAL] eq "1"}]
if {!$hpcmod_several && $hpcmod::lmod} { family "ai_container" }
set hpcmod_loaded [hpcmod::value _HPCMOD_PYTHON]
if {[module-info mode load] && !$hpcmod_several && $hpcmod_loaded ni [list "" $hpcmod_this]} {
    # To swap modules of a family, Lmod loads the new one, unloads both, and loads the new one again. The first time, the
    # variables still belong to the other module: do nothing, and undo nothing.
    if {$hpcmod::lmod && [lrange $hpcmod_loaded 0 end-1] eq "ai_container"} { return }
    set hpcmod_message "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: the container module [lindex $hpcmod_loaded end] is loaded; unload it first"
    if {$hpcmod::lmod} { error $hpcmod_message }
    puts stderr $hpcmod_message
    break
}
if {$hpcmod::lmod && $hpcmod::unloading && ![info exists ::env($hpcmod::memory)]} { return }
# After our own message, which names the other container.
if {!$hpcmod::lmod && !$hpcmod_several && [info commands family] ne ""} { family "ai_container" }

namespace eval hpcmod {
    # SIF, RUNSCRIPTS and CONTAINERROOT belong to the container that was loaded last. _HPCMOD_ORDER lists all, the last first.
    variable order {}
    variable is_last $unloading
    set is_last [expr {!$unloading || [lindex [split [value _HPCMOD_ORDER] :] 0] eq "PYTORCH"}]
    foreach mark [split [value _HPCMOD_ORDER] :] { if {$mark ni [list "" "PYTORCH"]} { lappend order $mark } }
}
prepend-path _HPCMOD_ORDER "PYTORCH"

# All other variables, such as binds, belong to the first: wrappers of the others replace them when they start.
if {[module-info mode load] && [hpcmod::exists _HPCMOD_CONTAINER] && [hpcmod::value _HPCMOD_CONTAINER] ne ""} {
    set hpcmod::state(ADDITIONAL) yes
}

proc hpcmod::share {name value} {
    variable unloading
    variable is_last
    if {!$unloading} { share_value $name $value } elseif {$is_last} { unshare $name $value }
}

proc hpcmod::share_value {name value} {
    variable lmod
    variable order
    variable state
    if {![llength $order]} {
        set had [exists $name]
        set state($name) [expr {!$had ? "unset" : $::env($name) eq "" ? "empty" : "value"}]
    } else {
        # the state before the first container
        set state($name) unset
        foreach word [value _HPCMOD_[lindex $order 0]] { if {[string match $name=* $word]} { set state($name) [lindex [split $word =] 1] } }
    }
    if {$lmod && ([llength $order] || $state($name) eq "value")} {
        set stack __LMOD_STACK_$name
        setenv $stack [base64 $value]:[expr {[info exists ::env($stack)] ? $::env($stack) : [base64 [value $name]]}]
    } elseif {![llength $order] && $state($name) eq "value"} {
        setenv _HPCMOD_SAVED_$name $::env($name)
    }
    setenv $name $value
}

# Values of containers that were unloaded meanwhile stay on Lmod's stack until the one above them goes.
proc hpcmod::unshare {name value} {
    variable lmod
    variable order
    variable state
    if {![info exists state($name)]} { return }
    set stack __LMOD_STACK_$name
    set below [expr {$lmod ? [lrange [split [value $stack] :] 1 end] : {}}]
    if {[llength $order]} {
        set root [regsub {/runscripts$} [value RUNSCRIPTS[lindex $order 0]] ""]
        set wanted [expr {$name eq "CONTAINERROOT" ? $root : [value $name[lindex $order 0]]}]
        if {!$lmod} { unsetenv $name $wanted }
        foreach entry $below {
            pushenv $name $value
            if {$entry eq [base64 $wanted]} { break }
        }
    } elseif {$lmod} {
        if {$state($name) eq "value"} { foreach entry $below { pushenv $name $value } } else { setenv $name $value }
        setenv $stack ""
        if {$state($name) eq "empty"} { restore_empty $name }
    } else {
        switch $state($name) {
            unset { setenv $name "" }
            empty { unsetenv $name "" }
            value { unsetenv $name [value _HPCMOD_SAVED_$name]; setenv _HPCMOD_SAVED_$name "" }
        }
    }
}

if {![info exists hpcmod::state(ADDITIONAL)]} { setenv _HPCMOD_CONTAINER [expr {$hpcmod::unloading ? "" : $hpcmod_this}] }
if {$hpcmod_several} {
    set hpcmod::state(SEVERAL) yes
} else {
    setenv _HPCMOD_PYTHON [expr {$hpcmod::unloading ? "" : $hpcmod_this}]
}

set hpcmod_places [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif"]
set hpcmod_sif [hpcmod::sif $hpcmod_places]
if {$hpcmod_sif eq "" && [module-info mode load]} {
    if {$hpcmod::lmod} { error "PyTorch/2.7.1-rocm-6.2.4-singularity: its image was not found in any of these locations:\n  /project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\nReinstall it with: eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb --rebuild" }
    puts stderr "PyTorch/2.7.1-rocm-6.2.4-singularity: its image was not found in any of these locations:\n  /project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\nReinstall it with: eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb --rebuild"
    break
}
if {$hpcmod_sif eq ""} { set hpcmod_sif [lindex $hpcmod_places 0] }
hpcmod::share SIF $hpcmod_sif
hpcmod::override "SIFPYTORCH" $hpcmod_sif
hpcmod::share "RUNSCRIPTS" "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts"
hpcmod::override "RUNSCRIPTSPYTORCH" "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts"
hpcmod::share "CONTAINERROOT" "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"
hpcmod::set_default [list "SINGULARITYENV_VIRTUAL_ENV" "APPTAINERENV_VIRTUAL_ENV"] "/user-software/venv/pytorch"
hpcmod::set_default [list "SINGULARITYENV_WITH_VENV" "APPTAINERENV_WITH_VENV"] ". /runscripts/init-conda-venv"
hpcmod::set_default [list "SINGULARITYENV_WITH_CONDA_VENV" "APPTAINERENV_WITH_CONDA_VENV"] ". /runscripts/init-conda-venv"
if {$hpcmod::unloading || ![hpcmod::exists "OMP_NUM_THREADS"]} {
    hpcmod::set_default [list "SINGULARITYENV_OMP_NUM_THREADS" "APPTAINERENV_OMP_NUM_THREADS"] "4"
}
if {$hpcmod::unloading || ![hpcmod::exists "SAM_CACHE"]} {
    hpcmod::set_default [list "SINGULARITYENV_SAM_CACHE" "APPTAINERENV_SAM_CACHE"] "it's \"here\", %(name)s"
}
# Keep the host's Python environment out, except for variables listed in HPCMOD_KEEP_ENV: some always, others only with the
# value from before loading, which a variable remembers.
proc hpcmod::find_before {name kind} {
    if {$kind eq "before"} { return [value $name] }
    set base [expr {[exists PYTHONUSERBASE] ? [value PYTHONUSERBASE] : "[value HOME]/.local"}]
    set place $base/[format %s "lib/python3.12/site-packages"]
    return [expr {[file isdirectory $place] ? $place : ""}]
}

proc hpcmod::keep_out {name default kind} {
    variable unloading
    variable memory
    variable state
    variable dropped
    variable dropped_names
    set names [list SINGULARITYENV_$name APPTAINERENV_$name]
    if {$kind eq "always"} { return [set_default $names $default] }
    set note ${memory}_$name
    set before [expr {$unloading ? [value $note] : [find_before $name $kind]}]
    if {$before eq ""} { return }
    if {!$unloading && ![info exists state(ADDITIONAL)] && ![exists [lindex $names 0]] && ![exists [lindex $names 1]]} {
        lappend dropped [expr {$kind eq "before" ? "$name=$before" : $before}]
        lappend dropped_names $name
    }
    set_default $names $default
    setenv $note $before
}

set hpcmod::dropped {}
set hpcmod::dropped_names {}
foreach {hpcmod_name hpcmod_value hpcmod_kind} [list "PYTHONPATH" "" "before" "PYTHONHOME" "" "before" "PYTHONSTARTUP" "" "before" "LD_PRELOAD" "" "before" "CONDA_PREFIX" "" "always" "CONDA_DEFAULT_ENV" "" "always" "CONDA_EXE" "" "always" "CONDA_PYTHON_EXE" "" "always" "CONDA_SHLVL" "" "always" "CONDA_PROMPT_MODIFIER" "" "always" "_CE_CONDA" "" "always" "_CE_M" "" "always" "PYTHONNOUSERSITE" "1" "packages"] {
    if {$hpcmod::unloading || $hpcmod_name ni [split [hpcmod::value HPCMOD_KEEP_ENV]]} {
        hpcmod::keep_out $hpcmod_name $hpcmod_value $hpcmod_kind
    }
}
if {[module-info mode load] && [llength $hpcmod::dropped]} {
    puts stderr "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: kept out of the container, because it was there before: [join $hpcmod::dropped {, }].\
        To use it: export HPCMOD_KEEP_ENV='[join $hpcmod::dropped_names]' and load the module again"
}

# Your own packages: the active state of a set that fits this image, chosen by HPCMOD_PACKAGES.
proc hpcmod::own_packages {} {
    set chosen [value HPCMOD_PACKAGES]
    if {$chosen eq "none" || !([module-info mode load] || [module-info mode display])} { return {} }
    set state ""
    set name $chosen
    regexp {^(.*)@([0-9]+)$} $chosen -> name state
    if {$name eq ""} { set name default }
    set shared [string match /* $name]
    if {$shared} {
        set place $name/
        append place "PyTorch"
    } else {
        set base [value HPCMOD_PACKAGES_DIR]
        if {![string match /* $base]} { set base [value HOME]/.local/share/hpcmod }
        set place $base/packages/
        append place "PyTorch" / $name
    }
    set found $place/
    if {$state eq ""} { append found "active-cp312-555555555555.squashfs" } else { append found states/ $state - "cp312-555555555555.squashfs" }
    if {[file exists $found]} { return [list [list $found "/user-software" "image-src=/,ro" 0]] }
    if {![module-info mode load]} { return {} }
    set said ""
    if {![file isdirectory $place]} {
        if {!$shared && $chosen ne ""} { set said "you have no set of packages `$name`; see: hpcmod packages" }
    } elseif {$state ne ""} {
        set said "state $state of your packages `$name` does not fit this image, so they are off; see: hpcmod packages --history"
    } elseif {[llength [glob -nocomplain -directory $place -types {} -- active-*]]} {
        set said "your packages `$name` were made for another image, so they are off; to make them fit: hpcmod rebase"
    }
    if {$said ne ""} { puts stderr "[format %s "PyTorch/2.7.1-rocm-6.2.4-singularity"]: $said [format %s "PyTorch"]" }
    return {}
}

# Binds: Apptainer does not start if a source is missing, so bind only those that exist here. The user's come last and win.
# Source, destination (may be empty), options, required or not.
hpcmod::binds [list \
    [list [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts" "/runscripts" "" 0]] \
    [list {*}[hpcmod::own_packages] [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software.squashfs" "/user-software" "image-src=/,ro" 0] [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software" "/user-software" "" 0]] \
]
hpcmod::container_path [list "/runscripts" "/user-software/venv/pytorch/bin" "/opt/miniconda3/envs/pytorch/bin"]
hpcmod::remember
