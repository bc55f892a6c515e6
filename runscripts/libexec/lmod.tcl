# Let Lmod act on a modulefile in Tcl with libexec/module.lua: Tcl of Lmod differs between its releases in what it restores, prints
# and escapes. It puts text for an unknown channel into its Lua, 8.0 only that of help; 7 prints it to `file1`, stdout. For module.tcl.

# Return text as a string in Lua, byte for byte as it is in the modulefile.
proc hpcmod::lua {text} {
    set quoted ""
    foreach byte [split [encoding convertto [encoding system] $text] ""] {
        append quoted [expr {[regexp {^[A-Za-z0-9_ /.,:=@+-]$} $byte] ? $byte : [format {\%03d} [scan $byte %c]]}]
    }
    return "\"$quoted\""
}

proc hpcmod::lua_list {items} { return "{ [join $items {, }] }" }

proc hpcmod::lua_texts {texts} {
    set items {}
    foreach text $texts { lappend items [lua $text] }
    return [lua_list $items]
}

proc hpcmod::lua_pairs {texts more} {
    set items {}
    foreach {name value} $texts { lappend items "{ [lua $name], [lua $value]$more }" }
    return $items
}

proc hpcmod::lua_bind {bind} {
    lassign $bind source place options kind required
    set items [list [lua $source]]
    if {$kind eq "own_packages"} { set items [list "own_packages = { name = [lua [lindex $source 0]], fits = [lua [lindex $source 1]] }"] }
    if {$place ne ""} { lappend items "to = [lua $place]" }
    if {$options ne ""} { lappend items "options = [lua $options]" }
    if {$kind eq "pattern"} { lappend items "pattern = true" }
    if {$required eq "required"} { lappend items "required = true" }
    return [lua_list $items]
}

proc hpcmod::lua_container {} {
    upvar #0 container container
    foreach name {module mark root easyconfig family} { lappend items "$name = [lua $container($name)]" }
    foreach name {python sets_bind} { lappend items "$name = $container($name) == 1" }
    foreach name {image path notices} { lappend items "$name = [lua_texts $container($name)]" }
    set groups {}
    foreach group $container(binds) {
        set binds {}
        foreach bind $group { lappend binds [lua_bind $bind] }
        lappend groups [lua_list $binds]
    }
    set inside [concat [lua_pairs $container(in_container) ""] [lua_pairs $container(in_container_unless_set) ", host_wins = true"]]
    lappend items "binds = [lua_list $groups]" "variables = [lua_list [lua_pairs $container(variables) {}]]" "in_container = [lua_list $inside]"
    set kept_out {}
    foreach item $container(keep_out) {
        lassign $item name value only_if directory
        set more [expr {$only_if eq "directory" ? ", directory = [lua $directory]" : $only_if eq "if_set" ? ", if_set = true" : ""}]
        lappend kept_out "{ [lua $name], [lua $value]$more }"
    }
    return [lua_list [concat $items [list "keep_out = [lua_list $kept_out]"]]]
}

set hpcmod::translation "if mode() ~= \"spider\" then loadfile([hpcmod::lua $root/libexec/module.lua])([hpcmod::lua_container]) end"
if {$::env(LMOD_VERSION) eq "8.0"} { setPutMode inHelp; puts $hpcmod::translation; setPutMode normal; return }
puts [expr {[string match 7.* $::env(LMOD_VERSION)] ? "file1" : "lua"}] $hpcmod::translation
