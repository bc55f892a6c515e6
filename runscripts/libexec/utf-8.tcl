# Make Lmod print the UTF-8 of modulefiles, which it reads as bytes: without this, each byte would become a character. Only where
# Lmod itself interprets Tcl; if it starts tclsh, that prints the bytes as they are.
if {![string match */tcl2lua.tcl [info nameofexecutable]]} { return }
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
