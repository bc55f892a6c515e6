# Set variables so that unloading gives each the value that the user had before, which _HPCMOD_USER_<name> keeps. For
# Environment Modules 4 and 5. Sourced by module.tcl, and by hpcmod's own module, after they have set hpcmod::memory, the name
# of the variable that says what this module has set, as words NAME=STATE; wrappers read it too.
namespace eval hpcmod {
    variable memory
    variable unloading [expr {[module-info mode unload] || [module-info mode remove]}]
    array unset ::hpcmod::state
    array set ::hpcmod::state {}
    if {$unloading && [info exists ::env($memory)]} {
        foreach word $::env($memory) { lassign [split $word =] name its; set state($name) $its }
    }
}

proc hpcmod::value {name} { if {[info exists ::env($name)]} { return $::env($name) } else { return "" } }

# Environment Modules keeps a variable that it unset as an empty one until the end of its run, as in a swap or a reload.
proc hpcmod::exists {name} {
    if {[module-info mode load] && ![catch {getenv $name \001} known]} { return [expr {$known ne "\001"}] }
    return [info exists ::env($name)]
}

# Set a variable; unloading unsets it. At unload, Environment Modules would keep a value until the end of its run.
proc hpcmod::put {name value} { variable unloading; setenv $name [expr {$unloading ? "" : $value}] }

# At unload, give a variable a value.
proc hpcmod::set_at_unload {name value} {
    setenv $name ""
    unsetenv $name $value
}

# Version 4 cannot set a variable to nothing at unload, so the shell does, unless `guard` is set by then.
proc hpcmod::restore_empty {name guard saved} {
    set_at_unload $name ""
    if {[info exists ::ModuleToolVersion] && ![string match 4.* $::ModuleToolVersion]} { return [setenv $saved ""] }
    switch [module-info shell] {
        csh - tcsh { puts stdout "if (! \$?$guard) setenv $name ''; if (! \$?$guard) unsetenv $saved;" }
        fish { puts stdout "set -q $guard; or set -gx $name ''; set -q $guard; or set -e $saved;" }
        default { puts stdout "\[ -n \"\${$guard-}\" \] || { export $name=; unset $saved; };" }
    }
}

# Return a list with the value before any container was loaded, or an empty list if it was unset.
proc hpcmod::users {name} {
    variable unloading; variable state
    set saved _HPCMOD_USER_$name
    if {[exists $saved] && ($unloading || [info exists state(ADDITIONAL)] || ![exists $name])} { return [list $::env($saved)] }
    return [expr {!$unloading && [exists $name] ? [list $::env($name)] : {}}]
}

# Set a variable while the module is loaded, whatever the user has. `guard` is set as long as a module sets it.
proc hpcmod::override {name value guard} {
    variable unloading
    set before [users $name]
    if {$unloading && $before eq {{}}} {
        restore_empty $name $guard _HPCMOD_USER_$name
    } elseif {$unloading && [llength $before]} {
        set_at_unload $name [lindex $before 0]
        setenv _HPCMOD_USER_$name ""
    } else {
        if {[llength $before]} { put _HPCMOD_USER_$name [lindex $before 0] }
        put $name $value
    }
}

# Set variables unless the user has one of them, and remember the first name; unset them if they still have our value.
# Return whether they were free.
proc hpcmod::set_default {names value} {
    variable unloading; variable state
    set free [expr {![info exists state(ADDITIONAL)] && !$unloading}]
    foreach name $names { if {[exists $name]} { set free 0 } }
    if {$free} { set state([lindex $names 0]) ours }
    if {![info exists state([lindex $names 0])]} { return 0 }
    foreach name $names { if {$free || [value $name] eq $value} { put $name $value } }
    return $free
}

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

# Set lists to a value with our entries among the user's. At unload, a list that the user has changed loses only ours.
proc hpcmod::set_list {names value ours separator guard} {
    variable unloading; variable memory
    set note ${memory}_[lindex $names 0]
    if {$unloading && [exists $note]} { set value [value $note] }
    foreach name $names {
        if {$unloading && [value $name] ne $value} {
            remove_entries $name $ours $separator
        } else {
            override $name $value $guard
        }
    }
    put $note $value
}

proc hpcmod::remove_entries {name entries separator} {
    if {[info exists ::env(_HPCMOD_USER_$name)]} { setenv _HPCMOD_USER_$name "" }
    set rest {}
    foreach element [elements [value $name] $separator] { if {$element ni $entries} { lappend rest $element } }
    if {[llength $rest]} { unsetenv $name [join $rest $separator] } else { setenv $name "" }
}

# Remember for unloading what was set.
proc hpcmod::remember {} {
    variable memory; variable state
    set words {}
    foreach name [lsort [array names state]] { lappend words $name=$state($name) }
    put $memory [join $words]
}
