# Show the notices of the catalogues about the module's image, each once per shell. What these files say is only ever shown as
# text, or ignored; hpcmod.catalogue.text.notice defines their format. Sourced by files.tcl.
namespace eval hpcmod { variable head "hpcmod-notices 1"; variable limit 65536; variable most_stars 3 }

proc hpcmod::matches {text pattern} {
    variable most_stars
    if {[regexp -all {\*} $pattern] > $most_stars} { return 0 }
    return [string match [string map {\\ \\\\ \[ \\\[ \] \\\]} $pattern] $text]
}

proc hpcmod::on_host {rest} {
    if {![regexp {^(\S+) (/.*)$} $rest -> bounds path]} { return 0 }
    set pattern [string map [list "{version}" *] $path]
    variable most_stars
    if {[regexp -all {\*} $pattern] > $most_stars} { return 0 }
    set found [newest $pattern]
    if {$found eq "" || $bounds eq "any"} { return [expr {$found ne ""}] }
    set place [lsearch -glob [split $path /] "*\{version\}*"]
    if {![regexp {\d+(?:\.\d+)*} [lindex [split $found /] $place] version]} { return 0 }
    foreach bound [split $bounds ,] {
        if {![regexp {^(>=|<=|==|>|<)(\d+(?:\.\d+)*)$} $bound -> operator limit]} { return 0 }
        if {![expr "\[compare_versions [list $version] [list $limit]\] $operator 0"]} { return 0 }
    }
    return 1
}

# Return a number below, equal to or above 0 for an older, equal or newer version; 1.22.0 equals 1.22.
proc hpcmod::compare_versions {left_version right_version} {
    set left_parts [split $left_version .]
    set right_parts [split $right_version .]
    for {set i 0} {$i < max([llength $left_parts], [llength $right_parts])} {incr i} {
        set left [string trimleft [lindex $left_parts $i] 0]
        set right [string trimleft [lindex $right_parts $i] 0]
        set order [expr {[string length $left] - [string length $right]}]
        if {$order == 0} { set order [string compare $left $right] }
        if {$order != 0} { return $order }
    }
    return 0
}

proc hpcmod::condition {word rest} {
    variable module
    switch -- $word {
        module { return [expr {$rest eq $module}] }
        until { return [expr {[string is entier -strict $rest] && [clock seconds] < $rest}] }
        host { return [on_host $rest] }
        variable {
            if {![regexp {^(\w+) ?(.*)$} $rest -> name pattern]} { return 0 }
            return [expr {[exists $name] && [matches [value $name] $pattern]}]
        }
        no-variable { return [expr {[regexp {^\w+$} $rest] && ![exists $rest]}] }
    }
    return 0
}

# Return the notices in a file: name, whether its conditions hold, and text.
proc hpcmod::read_notices {place} {
    variable head
    variable limit
    set notices {}
    if {![file isfile $place] || [file size $place] > $limit || [catch {open $place} file]} { return $notices }
    fconfigure $file -encoding utf-8
    if {[catch {read $file $limit} text]} { set text "" }
    close $file
    set lines [lassign [split $text \n] first]
    if {$first ne $head} { return $notices }
    foreach line [concat $lines [list notice]] {
        if {![regexp {^([a-z-]+) ?(.*)$} $line -> word rest]} { continue }
        if {$word eq "notice"} {
            if {[info exists name]} { lappend notices [list $name $holds [join $text_lines \n]] }
            lassign [list $rest [regexp {^[0-9a-f]+$} $rest] {}] name holds text_lines
        } elseif {$word eq "say"} {
            lappend text_lines $rest
        } elseif {[info exists holds] && $holds} {
            set holds [condition $word $rest]
        }
    }
    return $notices
}

namespace eval hpcmod {
    set shown [split [value HPCMOD_NOTICED]]
    set before $shown
    foreach place $container(notices) {
        foreach notice [read_notices $place] {
            lassign $notice name holds text
            if {!$holds || $name in $shown || "all" in $shown} { continue }
            # Remove control characters: no text can control the terminal.
            message [regsub -all {[\u0001-\u0009\u000b-\u001f\u007f-\u009f]} [string map [list \u0000 ?] $text] ?]
            lappend shown $name
        }
    }
    # never unset: the user of this shell has seen them, whatever is loaded
    if {$shown ne $before} { setenv HPCMOD_NOTICED [join $shown] }
}
