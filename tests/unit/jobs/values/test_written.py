from __future__ import annotations

import pytest

from hpcmod.jobs.values.written import WrittenJob, read_written_job

SHA256 = "1f" * 32


def test_reads_which_modules_a_script_loads_and_its_machine() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --job-name=train\n"
        f"# Image: sha256 {SHA256}, made of docker://x/y@sha256:{'0' * 64}\n"
        "module unuse /site\nmodule use '/with blank/modules'\nmodule use /own\nmodule load Toy/1.0 || exit\n"
        'srun singularity exec "$SIF" true\n'
    )
    assert read_written_job(script) == WrittenJob("train", "Toy/1.0", ("/own", "/with blank/modules"), SHA256)


@pytest.mark.parametrize("more", ["", " APPTAINERENV_HPCMOD_PACKAGES=exp SINGULARITYENV_HPCMOD_PACKAGES=exp"])
def test_reads_which_packages_a_script_chooses(more: str) -> None:
    text = f"export HPCMOD_PACKAGES=exp{more}\nexport HPCMOD_PACKAGES_DIR='/a b'\nmodule load X\n"
    assert read_written_job(text).choice == (("HPCMOD_PACKAGES", "exp"), ("HPCMOD_PACKAGES_DIR", "/a b"))


def test_a_script_without_a_module_says_nothing() -> None:
    assert read_written_job("#!/bin/bash\nmodule 'open\necho module load x\n") == WrittenJob("", "", (), "")
