"""Render plans as text: run scripts, wrappers, modulefiles; all outside values pass through hpcmod.render.quote."""
