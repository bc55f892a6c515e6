# What a container module does when it is loaded, unloaded or shown. Its modulefile fills the array container, and at its
# end sources this file.
# Starts no program, and calls no procedure of a site. For Lmod, which translates it, and for Environment Modules 4 and 5.
#
# Unloading gives each variable the value that the user had before, which _HPCMOD_USER_<name> keeps. Environment Modules can
# set a variable while it unloads; Lmod can only unset it, so the shell sets it after Lmod.
namespace eval hpcmod {
    variable lmod [expr {[info exists ::ModuleTool] && $::ModuleTool eq "Lmod"}]
    variable unloading [expr {[module-info mode unload] || [module-info mode remove]}]
    variable loading [module-info mode load]
    array unset ::hpcmod::container
    array set ::hpcmod::container [array get ::container]
    variable module $container(module)
    variable mark $container(mark)
    variable memory _HPCMOD_$mark ;# what this module has set, as words NAME=STATE; wrappers read it too
    variable this_module "$container(family) $module"
    array unset ::hpcmod::state
    array set ::hpcmod::state {}
    if {$unloading && [info exists ::env($memory)]} {
        foreach word $::env($memory) { lassign [split $word =] name its; set state($name) $its }
    }
}

proc hpcmod::value {name} { if {[info exists ::env($name)]} { return $::env($name) } else { return "" } }

# Environment Modules keeps a variable that it unset as an empty one until the end of its run, as in a swap or a reload.
proc hpcmod::exists {name} {
    variable lmod
    if {!$lmod && [module-info mode load] && ![catch {getenv $name \001} known]} { return [expr {$known ne "\001"}] }
    return [info exists ::env($name)]
}

proc hpcmod::message {text} { variable module; puts stderr "$module: $text" }

# Set and restore variables ------------------------------------------------------------------------------------------

# Set a variable; unloading unsets it. At unload, Environment Modules would keep a value until the end of its run.
proc hpcmod::put {name value} { variable unloading; setenv $name [expr {$unloading ? "" : $value}] }

# At unload, give a variable a value. Under Lmod, the shell does so, if `guard` has the expected value by then ("": unset).
proc hpcmod::set_at_unload {name value guard expected saved} {
    variable lmod
    put $name $value
    if {!$lmod} {
        unsetenv $name $value
        if {$saved ne ""} { setenv $saved "" }
        return
    }
    if {$saved eq ""} { set saved _HPCMOD_NOTHING }
    set quoted '[string map {' '\\''} $value]'
    switch [module-info shell] {
        csh - tcsh {
            set test "if (\"`printenv $guard`\" == '$expected')"
            puts stdout "$test setenv $name [string map [list ! \\! \n \\\n] $quoted]; $test unsetenv $saved;"
        }
        fish {
            set quoted '[string map {\\ \\\\ ' \\'} $value]'
            puts stdout "test \"\$$guard\" = '$expected'; and set -gx $name $quoted; and set -e $saved;"
        }
        default {
            set quoted [string map [list \n {'$'\n''}] $quoted] ;# older Lmods would print a blank
            puts stdout "\[ \"\${$guard-}\" != '$expected' \] || { export $name=$quoted; unset $saved; };"
        }
    }
}

# Return a list with the value before any container was loaded, or an empty list if it was unset. After an unload in the
# same run of Lmod, as in a swap, the shell has not yet set it again.
proc hpcmod::users {name} {
    variable unloading; variable is_first
    set saved _HPCMOD_USER_$name
    if {[exists $saved] && ($unloading || !$is_first || ![exists $name])} { return [list $::env($saved)] }
    return [expr {!$unloading && [exists $name] ? [list $::env($name)] : {}}]
}

# Set a variable while the module is loaded, whatever the user has. `guard` tells the shell at unload whether another
# module has set it since: it is unset if none has.
proc hpcmod::override {name value guard} {
    variable unloading
    set before [users $name]
    if {$unloading && [llength $before]} {
        set_at_unload $name [lindex $before 0] $guard "" _HPCMOD_USER_$name
    } else {
        if {[llength $before]} { put _HPCMOD_USER_$name [lindex $before 0] }
        put $name $value
    }
}

proc hpcmod::share {name value} {
    variable unloading; variable others; variable is_last
    if {$unloading && !$is_last} { return }
    set next [lindex $others 0]
    if {$next eq ""} { return [override $name $value _HPCMOD_ORDER] }
    if {!$unloading} { return [put $name $value] }
    set root [regsub {/runscripts$} [value RUNSCRIPTS$next] ""]
    set_at_unload $name [expr {$name eq "CONTAINERROOT" ? $root : [value $name$next]}] _HPCMOD_ORDER [join $others :] ""
}

# Set variables unless the user has set one of them; unset them only if they still have our value. Return whether they
# were free.
proc hpcmod::set_default {names value} {
    variable unloading; variable is_first; variable state
    set free [expr {$is_first && !$unloading}]
    foreach name $names { if {[exists $name]} { set free 0 } }
    foreach name $names {
        if {$free} { set state($name) ours }
        if {$free || [info exists state($name)] && $state($name) eq "ours" && [value $name] eq $value} { put $name $value }
    }
    return $free
}

proc hpcmod::set_default_inside {name value} {
    return [set_default [list SINGULARITYENV_$name APPTAINERENV_$name] $value]
}

# Lists of Apptainer -------------------------------------------------------------------------------------------------

# Split a list into its elements; `\,` does not end an element, and options of a bind are separated by commas too.
proc hpcmod::elements {text separator} {
    set all {}
    foreach element [split [string map [list \\$separator \001] $text] $separator] {
        if {$element eq ""} { continue }
        set element [string map [list \001 \\$separator] $element]
        if {$separator eq "," && [llength $all] && [regexp {^(ro|rw)$|^(image-src|id)=} $element]} {
            set all [concat [lrange $all 0 end-1] [list "[lindex $all end],$element"]]
        } else {
            lappend all $element
        }
    }
    return $all
}

proc hpcmod::destination {bind} {
    lassign [split [string map [list \\: \001] $bind] :] source place
    if {$place eq ""} { set place $source }
    return [expr {[string length $place] > 1 ? [string trimright $place /] : $place}]
}

proc hpcmod::itself {entry} { return $entry }

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

# Put our entries before the user's, in both lists: if they differ, Apptainer ignores one. At unload, a list that the user
# has changed meanwhile loses only our entries.
proc hpcmod::prepend {names ours separator user} {
    variable unloading; variable memory
    set note ${memory}_[lindex $names 0]
    set list [expr {$unloading && [exists $note] ? [value $note] : [join [concat $ours $user] $separator]}]
    foreach name $names {
        if {$unloading && [value $name] ne $list} {
            remove_entries $name $ours $separator
        } else {
            override $name $list _HPCMOD_CONTAINER
        }
    }
    put $note $list
}

proc hpcmod::remove_entries {name entries separator} {
    variable lmod
    if {[info exists ::env(_HPCMOD_USER_$name)]} { setenv _HPCMOD_USER_$name "" }
    if {$lmod} {
        # Lmod copies the entry unescaped into a Lua string, where a backslash starts an escape sequence.
        foreach entry $entries { prepend-path -d $separator $name [string map {\\ \\\\} $entry] }
        return
    }
    set rest {}
    foreach element [elements [value $name] $separator] { if {$element ni $entries} { lappend rest $element } }
    if {[llength $rest]} { unsetenv $name [join $rest $separator] } else { setenv $name "" }
}

# Image and variables ------------------------------------------------------------------------------------------------

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

# Keep the host's Python environment out, except for variables in HPCMOD_KEEP_ENV. Some are kept out always, others only if
# they are set now, which a variable remembers: what the user sets later gets in.
proc hpcmod::keep_out {} {
    variable unloading; variable loading; variable memory; variable container
    set dropped {}
    set names {}
    foreach item $container(keep_out) {
        lassign $item name value only_if directory
        set before [expr {$only_if eq "if_set" ? [value $name] : ""}]
        if {$only_if eq "if_directory"} {
            set place [expr {[exists PYTHONUSERBASE] ? [value PYTHONUSERBASE] : "[value HOME]/.local"}]/$directory
            set before [expr {[file isdirectory $place] ? $place : ""}]
        }
        if {$unloading} { set before [value ${memory}_$name] }
        if {$only_if ne "" && $before eq ""} { continue }
        if {!$unloading && $name in [split [value HPCMOD_KEEP_ENV]]} { continue }
        set is_new [set_default_inside $name $value]
        if {$only_if eq ""} { continue }
        put ${memory}_$name $before
        if {$is_new} {
            lappend dropped [expr {$only_if eq "if_set" ? "$name=$before" : $before}]
            lappend names $name
        }
    }
    if {$loading && [llength $dropped]} {
        message "kept out of the container, because it was there before: [join $dropped {, }].\
            To use it: export HPCMOD_KEEP_ENV='[join $names]' and load the module again"
    }
}

proc hpcmod::container_path {} {
    variable container; variable state; variable unloading
    array set seen {}
    if {!$unloading} { set state(PATHS) [llength $container(path)] }
    set names {SINGULARITYENV_PREPEND_PATH APPTAINERENV_PREPEND_PATH}
    prepend $names $container(path) : [users_entries $names : itself seen]
}

# Return why the module must not be loaded, or nothing. Only one container with a whole Python environment is loaded, unless
# HPCMOD_SEVERAL=1: their commands have the same names.
proc hpcmod::refusal {} {
    variable lmod; variable loading; variable unloading; variable container; variable this_module; variable state
    variable sif; variable is_swapped 0
    if {$container(python)} {
        if {!$unloading && [value HPCMOD_SEVERAL] eq "1"} { set state(SEVERAL) yes }
        if {$lmod && ![info exists state(SEVERAL)]} { family $container(family) }
        set other [value _HPCMOD_PYTHON]
        if {$loading && ![info exists state(SEVERAL)] && $other ni [list "" $this_module]} {
            # To swap modules of a family, Lmod loads the new one, unloads both, and loads the new one again. The first time,
            # the variables still belong to the other module: do nothing, and undo nothing.
            set is_swapped [expr {$lmod && [lrange $other 0 end-1] eq $container(family)}]
            return [expr {$is_swapped ? "" : "the container module [lindex $other end] is loaded; unload it first"}]
        }
    }
    set sif [lindex $container(image) 0]
    foreach place [lreverse $container(image)] { if {[file isfile $place]} { set sif $place } }
    if {[file isfile $sif] || !$loading} { return "" }
    return "its image was not found in any of these locations:\n  [join $container(image) "\n  "]\nReinstall it with: eb\
        $container(easyconfig) --rebuild"
}

set hpcmod::refused [hpcmod::refusal]
if {$hpcmod::refused ne ""} {
    # Lmod copies the text into a Lua string, which `]===]` would end
    if {$hpcmod::lmod} { error [string map {]===] ]=?==]} "$hpcmod::module: $hpcmod::refused"] }
    hpcmod::message $hpcmod::refused ;# Environment Modules would print a trace of an error
    break
}
if {$hpcmod::is_swapped || $hpcmod::lmod && $hpcmod::unloading && ![info exists ::env($hpcmod::memory)]} { return }
source $hpcmod::container(root)/libexec/files.tcl
namespace eval hpcmod {
    # After our own message, which names the other container.
    if {$container(python) && ![info exists state(SEVERAL)]} {
        if {!$lmod && [info commands family] ne ""} { family $container(family) }
        put _HPCMOD_PYTHON $this_module
    }
    # SIF, RUNSCRIPTS and CONTAINERROOT belong to the container that was loaded last, all else, such as binds, to the first:
    # wrappers of the others replace it when they start. _HPCMOD_ORDER lists them, the last first.
    variable order [split [value _HPCMOD_ORDER] :]
    variable is_last [expr {!$unloading || [lindex $order 0] eq $mark}]
    variable others {}
    foreach name $order { if {$name ni [list "" $mark]} { lappend others $name } }
    prepend-path _HPCMOD_ORDER $mark
    if {$loading && [value _HPCMOD_CONTAINER] ne ""} { set state(ADDITIONAL) yes }
    variable is_first [expr {![info exists state(ADDITIONAL)]}]
    if {$is_first} { put _HPCMOD_CONTAINER $this_module }
    image
    variables
    keep_out
    if {$is_first} { binds; container_path }
    variable words {}
    foreach name [lsort [array names state]] { lappend words $name=$state($name) }
    put $memory [join $words]
    if {$loading} { show_notices $container(notices) }
}
