"""A plan as text: run scripts, wrappers, modulefiles; every value from outside goes through hpcmod.render.quote."""
