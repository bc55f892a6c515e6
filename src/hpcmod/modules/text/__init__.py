"""Render modulefiles, settings of run scripts, easyconfigs and plans."""
