# What a container module looks for on disk while it is loaded: binds, paths that match a pattern, the user's own packages, and
# notices. Sourced by module.tcl.

proc hpcmod::kernel {} {
    if {[catch {open /proc/sys/kernel/osrelease} file]} { return "" }
    gets $file release
    close $file
    return $release
}

# Return the newest path that matches a pattern: 1.10 before 1.9, numbers before words. Captured libraries whose originals
# are on this node come first.
proc hpcmod::newest {pattern} {
    set best ""
    set best_key ""
    foreach path [glob -nocomplain -- [string map [list "{uname_r}" [kernel] \\ \\\\ \[ \\\[ \] \\\] \{ \\\{ \} \\\}] $pattern]] {
        set key [file exists $path/.on-host]
        foreach part [regexp -all -inline {\d+|\D+} $path] {
            append key [expr {[string is digit $part] ? "~[string repeat 0 [expr {12 - [string length $part]}]]$part" : $part}]
        }
        if {[file exists $path] && ($best eq "" || [string compare $key $best_key] > 0)} {
            set best $path
            set best_key $key
        }
    }
    return $best
}

proc hpcmod::binds {} {
    variable unloading; variable loading; variable memory; variable container; variable state
    variable missing {}; variable unbindable {}; variable taken
    array unset taken
    set bind {SINGULARITY_BIND APPTAINER_BIND}
    set bindpath {SINGULARITY_BINDPATH APPTAINER_BINDPATH}
    # Apptainer warns if only one of a pair is set, even if empty.
    set has_bind [expr {$container(sets_bind) || [llength [users SINGULARITY_BIND]] || [llength [users APPTAINER_BIND]]}]
    if {$unloading} { set has_bind [exists ${memory}_SINGULARITY_BIND] }
    set users_bind [users_entries $bind , destination taken]
    set users_bindpath [users_entries $bindpath , destination taken]
    if {$unloading} {
        set count [expr {[info exists state(BINDS)] ? $state(BINDS) : 0}]
        set ours [lrange [elements [value ${memory}_SINGULARITY_BINDPATH] ,] 0 [expr {$count - 1}]]
    } else {
        set ours [choose_binds $container(binds)]
        set state(BINDS) [llength $ours]
    }
    if {$loading && [llength $missing]} { message "not bound, missing on this node: [join $missing {, }]" }
    if {$loading && [llength $unbindable]} { message "not bound, unsupported characters in the path: [join $unbindable {, }]" }
    if {[llength $missing] || [info exists ::env(${memory}_MISSING)]} { put ${memory}_MISSING [join $missing ,] }
    prepend $bindpath $ours , $users_bindpath
    # Some scripts read or extend SINGULARITY_BIND; the module's `singularity` passes each bind only once.
    if {$has_bind} { prepend $bind [expr {$container(sets_bind) ? $ours : {}}] , $users_bind }
}

proc hpcmod::escaped {path} { return [string map {: \\: , \\,} $path] }

proc hpcmod::add_bind {list_name source place options} {
    variable taken; variable unbindable; variable linked
    upvar $list_name binds
    if {[regexp {[\x01-\x1f\x7f]} $source] || [regexp {\\[:,]} $source:]} {
        lappend unbindable [regsub -all {[\x01-\x1f\x7f]} $source ?]
        return
    }
    set text [escaped $source]
    if {$place ne "" || $options ne ""} { append text : [escaped [expr {$place eq "" ? $source : $place}]] }
    if {$options ne ""} { append text : $options }
    if {[info exists taken([destination $text])]} { return }
    set taken([destination $text]) 1
    lappend binds $text
    if {$place eq "" && [file isdirectory $source]} { lappend linked $source }
}

# Of each group, choose the first that exists here: Apptainer does not start if a source is missing.
proc hpcmod::choose_binds {groups} {
    variable missing; variable linked {}
    set chosen {}
    foreach group $groups {
        set done 0
        foreach bind $group {
            lassign $bind source place options kind
            if {$kind eq "own_packages"} { set source [own_packages {*}$source] }
            if {$kind eq "pattern"} { set source [newest $source] }
            if {!$done && $source ne "" && [file exists $source]} {
                set done 1
                add_bind chosen $source $place $options
            }
        }
        lassign [lindex $group 0] source place options kind required
        if {!$done && $required eq "required"} { lappend missing $source }
    }
    return [concat [follow_links] $chosen] ;# links first, so that they do not hide other binds inside them
}

# Bind a link's target too, so that links below it resolve, unless that would hide files of the image.
proc hpcmod::follow_links {} {
    variable taken; variable linked
    set targets {}
    foreach source $linked {
        set place [file dirname [file normalize [file join $source x]]]
        set shown [expr {[lindex [split $place /] 1] in {"" usr bin sbin lib lib64 etc dev proc sys}}]
        set parent ""
        foreach part [lrange [split $place /] 1 end] {
            append parent / $part
            if {[info exists taken($parent)]} { set shown 1 }
        }
        if {!$shown} { add_bind targets $place "" "" }
    }
    return $targets
}

# Return the state of the user's packages for this image. Without HOME, wrappers know.
proc hpcmod::own_packages {container fits} {
    set chosen [value HPCMOD_PACKAGES]
    if {$chosen eq "none"} { return "" }
    set state ""
    set name $chosen
    regexp {^(.*)@([0-9]+)$} $chosen -> name state
    if {$name eq ""} { set name default }
    set is_path [string match /* $name]
    set base [value HPCMOD_PACKAGES_DIR]
    if {![string match /* $base]} { set base [value HOME]/.local/share/hpcmod }
    set place [expr {$is_path ? "$name/$container" : "$base/packages/$container/$name"}]
    set file $place/[expr {$state eq "" ? "active-$fits.squashfs" : "states/$state-$fits.squashfs"}]
    if {[file isfile $file]} { return $file }
    set said ""
    set fails "so no container will start; see: hpcmod packages"
    if {![file isdirectory $place/states]} {
        if {!$is_path && $chosen ne "" && [exists HOME]} { set said "you have no set of packages `$name`, $fails" }
    } elseif {![catch {file lstat $file found}]} {
        set said "the file of your packages `$name` is missing, $fails --history"
    } elseif {$state ne ""} {
        set said "your packages `$name` have no state $state that fits this image, $fails --history"
    } elseif {[llength [glob -nocomplain -directory $place -types {} -- active-*]]} {
        set said "your packages `$name` were made for another image, so they are off; to make them fit: hpcmod rebase"
    }
    if {$said ne "" && [module-info mode load]} { message "[regsub -all {[[:cntrl:]]} $said ?] $container" }
    return ""
}

# Show the notices of the catalogues about the image, if there are any.
proc hpcmod::show_notices {places} {
    variable container
    foreach place $places {
        if {[file isfile $place]} { return [catch { uplevel #0 [list source $container(root)/libexec/notices.tcl] }] }
    }
}
