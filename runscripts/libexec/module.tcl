# What a container module does when it is loaded, unloaded or shown. Its modulefile fills the array container, and at its
# end sources this file. Unloading gives each variable the value that the user had before.
# Starts no program, and calls no procedure of a site. For Environment Modules 4 and 5.
namespace eval hpcmod {}
if {[info commands setPutMode] ne ""} { # a command of Lmod only
    source $container(root)/libexec/lmod.tcl
    return
}
namespace eval hpcmod {
    variable loading [module-info mode load]
    # The tool's library in C reads above U+FFFF otherwise.
    array set ::hpcmod::container [encoding convertfrom utf-8 [encoding convertto utf-8 [array get ::container]]]
    variable module $container(module)
    variable mark $container(mark)
    variable memory _HPCMOD_$mark
    variable this_module "$container(family) $module"
}
source $hpcmod::container(root)/libexec/variables.tcl

proc hpcmod::message {text} { variable module; puts stderr "$module: $text" }

# Image and variables

proc hpcmod::share {name value} {
    variable unloading; variable others; variable is_last
    if {$unloading && !$is_last} { return }
    set next [lindex $others 0]
    if {$next eq ""} { return [override $name $value _HPCMOD_ORDER_PATH] }
    if {!$unloading} { return [put $name $value] }
    set root [regsub {/runscripts$} [value RUNSCRIPTS$next] ""]
    set_at_unload $name [expr {$name eq "CONTAINERROOT" ? $root : [value $name$next]}]
}

proc hpcmod::set_default_inside {name value} {
    return [set_default [list SINGULARITYENV_$name APPTAINERENV_$name] $value]
}

proc hpcmod::image {} {
    variable container; variable mark; variable memory; variable sif
    foreach {name value} [list SIF $sif RUNSCRIPTS $container(root)/runscripts] {
        share $name $value
        override $name$mark $value $memory
    }
    share CONTAINERROOT $container(root)
}

proc hpcmod::variables {} {
    variable unloading; variable container
    foreach {name value} $container(variables) { set_default [list $name] $value }
    foreach {name value} $container(in_container) { set_default_inside $name $value }
    foreach {name value} $container(in_container_unless_set) {
        if {$unloading || ![exists $name]} { set_default_inside $name $value }
    }
}

# Keep the host's Python out, except for HPCMOD_KEEP_ENV: some variables always, others only if set now, which is recorded.
proc hpcmod::keep_out {} {
    variable unloading; variable loading; variable memory; variable container
    set dropped {}
    set names {}
    foreach item $container(keep_out) {
        lassign $item name value only_if directory
        set before [expr {$only_if eq "if_set" ? [value $name] : ""}]
        if {$only_if eq "directory"} {
            set place [expr {[exists PYTHONUSERBASE] ? [value PYTHONUSERBASE] : "[value HOME]/.local"}]/$directory
            set before [expr {[file isdirectory $place] ? $place : ""}]
        }
        if {$unloading} { set before [value ${memory}_$name] }
        if {$only_if eq "if_set" && $before eq ""} { continue }
        if {!$unloading && $name in [split [value HPCMOD_KEEP_ENV]]} { continue }
        set is_new [set_default_inside $name $value]
        if {$before eq ""} { continue }
        put ${memory}_$name $before
        if {$is_new} {
            lappend dropped [expr {$only_if eq "if_set" ? "$name=$before" : $before}]
            lappend names $name
        }
    }
    if {$loading && [llength $dropped]} {
        message "for programs of the host, so not used in the container: [join $dropped {, }].\
            To use it: export HPCMOD_KEEP_ENV='[join $names]' and load the module again"
    }
}

# Lists of Apptainer

proc hpcmod::destination {bind} {
    lassign [split [string map [list \\: \001] $bind] :] source place
    if {$place eq ""} { set place $source }
    return [expr {[string length $place] > 1 ? [string trimright $place /] : $place}]
}

# Return the user's entries of a pair of lists, each destination once, without those in the array of that name.
proc hpcmod::users_entries {names separator key taken_name} {
    upvar $taken_name taken
    set entries {}
    foreach name $names {
        foreach element [elements [lindex [users $name] 0] $separator] {
            if {![info exists taken([$key $element])]} { lappend entries $element }
            set taken([$key $element]) 1
        }
    }
    return $entries
}

# Put our entries before the user's, in both lists: if they differ, Apptainer ignores one.
proc hpcmod::prepend {names ours separator user} {
    set_list $names [join [concat $ours $user] $separator] $ours $separator _HPCMOD_CONTAINER
}

proc hpcmod::container_path {} {
    variable container; variable state; variable unloading
    if {!$unloading} { set state(PATHS) [llength $container(path)] }
    set names {SINGULARITYENV_PREPEND_PATH APPTAINERENV_PREPEND_PATH}
    prepend $names $container(path) : [users_entries $names : list seen]
}

# Return why the module must not be loaded, or nothing. Only one container with a whole Python environment is loaded, unless
# HPCMOD_SEVERAL=1: their commands have the same names.
proc hpcmod::refusal {} {
    variable loading; variable unloading; variable container; variable this_module; variable state; variable sif
    if {$container(python)} {
        if {!$unloading && [value HPCMOD_SEVERAL] eq "1"} { set state(SEVERAL) yes }
        set other [value _HPCMOD_PYTHON]
        if {$loading && ![info exists state(SEVERAL)] && $other ni [list "" $this_module]} {
            return "the container module [lindex $other end] is loaded; unload it first"
        }
    }
    set sif [lindex $container(image) 0]
    foreach place [lreverse $container(image)] { if {[file isfile $place]} { set sif $place } }
    if {[file isfile $sif] || !$loading} { return "" }
    return "its image was not found in any of these locations:\n  [join $container(image) "\n  "]\nIf you have installed it:\
        eb $container(easyconfig) --rebuild; else tell the support of your site"
}

set hpcmod::refused [hpcmod::refusal]
if {$hpcmod::refused ne ""} {
    hpcmod::message $hpcmod::refused ;# `error` would print a trace
    break
}
source $hpcmod::container(root)/libexec/files.tcl
namespace eval hpcmod {
    # After our own message, which names the other container.
    if {$container(python) && ![info exists state(SEVERAL)]} {
        if {[info commands family] ne ""} { family $container(family) }
        put _HPCMOD_PYTHON $this_module
    }
    # SIF, RUNSCRIPTS and CONTAINERROOT are of the container loaded last, all else is of the first; wrappers of the others
    # replace it. _HPCMOD_ORDER_PATH: the last first.
    variable order [split [value _HPCMOD_ORDER_PATH] :]
    variable is_last [expr {!$unloading || [lindex $order 0] eq $mark}]
    variable others {}
    foreach name $order { if {$name ni [list "" $mark]} { lappend others $name } }
    prepend-path _HPCMOD_ORDER_PATH $mark
    if {$loading && [value _HPCMOD_CONTAINER] ne ""} { set state(ADDITIONAL) yes }
    variable is_first [expr {![info exists state(ADDITIONAL)]}]
    if {$is_first} { put _HPCMOD_CONTAINER $this_module }
    image
    variables
    keep_out
    if {$is_first} { binds; container_path }
    remember
    if {$loading} { show_notices $container(notices) }
}
