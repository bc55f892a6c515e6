"""End-to-end tests with the real EasyBuild, Lmod, Environment Modules and Apptainer; nothing is mocked."""
