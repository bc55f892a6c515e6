"""The whole way, through the real EasyBuild, Lmod, Environment Modules and Apptainer; nothing here is faked."""
