"""Rules for batch scripts, tested with the corpus in tests/jobs: scripts with one fault each, and correct scripts."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from time import process_time

import pytest

from hpcmod.lint.jobs.lint import RULES, lint_job
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Gpus

JOBS = Path(__file__).resolve().parents[3] / "jobs"
DESK = JOBS / "desk"
"""Scripts as users send them to a support desk. Only those in `seen` were known when the rules were written."""
DESK_FAULTS = [line.split("\t") for line in (DESK / "faults.tsv").read_text().splitlines()[1:]]
"""Part, script, machine, line and rule of the single fault in each wrong script."""
DESK_RIGHT = sorted(DESK.glob("*/right/*.sh"))


@lru_cache
def site(name: str) -> Site:
    return load_site(name, {})


def read(path: Path) -> str:
    return path.read_bytes().decode()


@pytest.mark.parametrize("part, name, machine, line, rule, fault", DESK_FAULTS, ids=[row[1] for row in DESK_FAULTS])
@pytest.mark.slow
def test_a_script_from_the_desk_gives_its_one_fault(
    part: str, name: str, machine: str, line: str, rule: str, fault: str
) -> None:
    found = lint_job(read(DESK / part / "wrong" / f"{name}.sh"), site(machine))
    assert [(one.rule, one.line) for one in found] == [(rule, int(line))], fault
    assert all(one.found and one.cure for one in found)


@pytest.mark.parametrize("path", DESK_RIGHT, ids=lambda path: path.stem)
@pytest.mark.slow
def test_a_right_script_from_the_desk_gives_none(path: Path) -> None:
    assert lint_job(read(path), site(path.stem.partition("--")[0])) == ()


def test_every_script_of_the_desk_is_listed() -> None:
    listed = {f"{part}/{name}" for part, name, *_ in DESK_FAULTS}
    assert listed == {f"{path.parts[-3]}/{path.stem}" for path in DESK.glob("*/wrong/*.sh")}


def test_each_rule_has_a_script_that_breaks_it() -> None:
    scripts = {row[4] for row in DESK_FAULTS}
    lines = {rule for *_, rules in (*COMMAND_LINES, *DIRECTIVES, *SCRIPTS) for rule in rules}
    assert set(RULES) == scripts | lines


HEAD = (
    "#!/bin/bash\n#SBATCH -A p\n#SBATCH -N 2 --ntasks-per-node 8 --gpus-per-node mi250:8 -p standard-g\nmodule load X\n"
)


def rules_of(line: str, *, machine: str = "lumi") -> list[str]:
    return [fault.rule for fault in lint_job(HEAD + line, site(machine))]


def test_ranks_are_missed_on_nodes_without_gpus_too() -> None:
    job = (
        "#!/bin/bash\n#SBATCH -A p -p small -n 16 -t 5\nmodule load PyTorch\nsrun singularity exec $SIF python {}.py\n"
    )
    found = [[fault.rule for fault in lint_job(job.format(name), site("lumi"))] for name in ("mnist", "plot")]
    assert ["no-ranks" in rules for rules in found] == [True, False]


@pytest.mark.parametrize(
    ("value", "rules"), [("lo", ["wrong-interface"]), ("=lo", ["wrong-interface"]), ("lo,eth0", []), ("eth0", [])]
)
def test_the_loopback_interface_is_wrong_on_several_nodes_of_any_machine(value: str, rules: list[str]) -> None:
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        line = f"export {name}={value}\n"
        assert rules_of(line, machine="generic") == rules
        assert lint_job(HEAD.replace("-N 2", "-N 1") + line, site("generic")) == ()


RUN = "srun singularity exec $SIF "
COMMAND_LINES = [
    ("singularity exec docker://a ls\ncd $SLURMTMPDIR\n", []),
    ("for i in 1 2; do\n  " + RUN + "ls\n", ["syntax"]),
    ("srun a <i.f> o\nsingularity exec -B $a:$b,${A:-/a}:/b -e $SIF_DIR/a ls\nsingularity exec $nv -e b ls\n", []),
    ("f() {\ntorchrun t.py\n}\necho /deepspeed\nsrun ./a\nexec julia $0\n# =#\nfor i in 1:2 f(i) end\n", []),
    ("./a --b 1 \\\n  # --c 2 \\\n  --d 3\n", ["broken-continuation"]),
    ('./a 1 \\\n  # 2 \\\n\necho "#!/bin/bash\n#SBATCH -N 1\n" > b.sh\n#SBATCH_ARGS=-N2\n', []),
    ("srun --tasks=1 ./a\n", ["unknown-option"]),
    ("export SINGULARITY_ENV_X=1\n", ["unknown-setting"]),
    ("export MIOPEN_USER_DB=$TMPDIR\n", ["unknown-setting"]),
    ("export OMP_NUM_THREAD=4 DYLD_LIBRARY_PATH=/a\n", ["unknown-setting"]),
    ("srun -N2 -n2 torchrun -r 3 --use_env --nnodes 2 --max_rest 1 -m t --epochs 3\n", []),
    ("echo $SLURM_CPUS_PER_TASK; [ -z $SLURM_GPUS ] || ./a $SLURM_GPUS; ./a ${SLURM_CPUS_PER_TASK:-1}\n", []),
    ("make >> log 2>&1\n./a &\n", ["no-wait"]),
    ("srun --ntask=2 ./a\nsrun --exclusiv --mpi=pmix ./a\n", ["unknown-option"]),
    ("singularity shell -s /bin/bash a.sif\n", ["no-terminal"]),
    ("DATA='~/data'\ncp a $DATA\nX='~/y'\neval cp $X a\nY=~/z; cp $Y a\n", ["tilde"]),
    ("mkdir x/${$SLURM_JOB_ID} y$LSLURM_JOB_ID\n", ["slurm-variable", "syntax"]),
    ("source /path/to/env/bin/activate\ncp /path/to/b c\n", ["placeholder"]),
    ("echo /path/to/a\ncp $MY/path/to/a b\n", []),
    ('X="<absolute-path>/a"\nmkdir "$X"\n', ["placeholder"]),
    ("source /home/your_account/bin/activate\n", ["placeholder"]),
    ("module-loads-go-here\n", ["placeholder"]),
    ("export HF_HOME=/scratch/xxx/cache\n", ["placeholder"]),
    ("python a.py --key YOUR_KEY\n", ["placeholder"]),
    ("export YOUR_KEY=1\nsed -i s/PLACEHOLDER/$YOUR_KEY/ a\nX=$(grep '<Read>/' b)\necho $X\nmktemp /tmp/xxxx\n", []),
    ("pip install torch\npython train.py --a\n", ["install-in-job"]),
    ("pip install torch\npython -c 1\npip install .\n", []),
    ("virtualenv $SLURM_TMPDIR/env\npip install torch\npython train.py\n", []),
    ("echo a > f\nif [ $? -ne 0 ]; then exit 1; fi\n./a\necho a >> f\nX=$?\n", ["lost-status"]),
    ("${count}=$((1 + 1))\nexport UCX_TLS=self, tcp\nexport SPM_HOME= opt/spm\n", ["blank-in-assignment"] * 3),
    ("export UCX_TLS=self,tcp\nX=a, ./a b c\nexport A= B=1\n", []),
    ("PYTHONUNBUFFERED=1\npython t.py\n", ["not-exported"]),
    ("PYTHONUNBUFFERED=1 python t.py\nSCOREP_TOTAL_MEMORY=1\nexport SCOREP_TOTAL_MEMORY\n", []),
    ("rank=$((SLURM_NTASKS + 1))\nsrun -n2 ./a $rank\n", []),
    ("rank=$(($SLURM_PROCID + 1))\nsrun -n2 ./a --rank $rank\n", ["early-expansion"]),
    ("rank=$(($SLURM_PROCID + 1))\nfor rank in 1 2; do ./b $rank; done\nrank=1\nsrun -n2 ./a --rank $rank\n", []),
    ("export USER_SCRATCH=/a\ncd $USER_SCRACTH\n", ["misspelt-variable"]),
    ("TMPDIR=/a\nexport TMPTDIR\nsource x/bin/activate\n", ["misspelt-variable"]),
    ("NAMES=a\nFILE_A=b\ncd $NAME $FILE_B\nTRAIN=a\n# TRAINS is set by sbatch --export\ncd $TRAINS\n", []),
    (". conf\nINPUT=a\ncd $INPUTS ${INPUD:-x} $INPUDT\n", []),
    ("RUN_NAME=a\nif true; then RUN_NAMES=b; fi\ncd $RUN_NAMES\nread -r TOTALS < f\nTOTAL=1\ncd $TOTALS\n", []),
    ("./a\nrm slurm-*.out\n", []),
    ("cd x\nrm slurm-*.out\n", []),
    ("srun ./a <options>\n", ["syntax"]),
    ("bash <path/to/script/>/a.sh\n", ["syntax"]),
    ('echo "<options>" <in >out  # <b>\n', []),
    ("singularity exec /store/tool:1.2--3 ls\nif [ $1 ]; then\n  exit\nfi\n[ $SLURM_NODEID = 0 ]\nexit\n--left\n", []),
    ("if [ $1 ]; then export X=$SLURM_LOCALID Y=$PBS_JOBID; fi\n", []),
    (". env.sh\necho out.$PBS_JOBID ${NSLOTS:-1}\n", ["slurm-variable"]),
    ('cd $(dirname "$(readlink -f "$0")")\n', ["script-directory"]),
    ('HERE=$(dirname "$0")\n./a\n', []),
    ('sbatch "$0"\ncd $(dirname "$(readlink -f "$0")")\n', []),
    ("export N=$((SLURM_NTASKS / 8))\nsrun -n $N -c 8 ./a\nMASTER_ADDR=localhost\n", []),
    ("limit = 4\nHF_HUB_OFFLINE=1\nmodule /project/modules\n", ["blank-in-assignment", "not-exported", "module-path"]),
    ("NCCL_TEST_PATH=/usr/nccl-tests\nmodule un X\nmodule --force sw A B\nmodule\n", []),
    ("module python/3.11 R\nmodule laod R\nmodule petsc\nmodule gcc R\n", ["module-path"] * 4),
    ("module delete R\nmodule remove-path A b\nmodule saverm a\nmodule is-saved a\nmodule isloaded R\n", []),
    ("module tryload R\nmodule apropos R\nmodule stashpop\nmodule cacheclear\nmodule lo R\nmodule is-used R\n", []),
    ("singularity exec -B ${A:-/a,b}:c a.sif ls\n", ["bind-target"]),
    ("echo '%(date)s'\nif true; then\n", ["syntax"]),
    ("echo %(date)s\n", []),
    ("./a <input file> \\\n  > out\n", ["syntax"]),
    ('"""\nfor a in b; do sbatch x.sh $a; done\n"""\necho """x"""\n', ["syntax"]),
    ("srun -n1 -gpus 2 ./a\n", ["unknown-option"]),
    ("srun --pty /bin/bash -i\nsrun --pty bash -c ./a\nsrun --pty python a.py\n", ["no-terminal"]),  # ignored
    ("singularity exec a.sif env | grep A\n", []),
    ("singularity shell a.sif\n./a\n", ["no-terminal"]),
    ("singularity shell a.sif <<END\n./a\nEND\nsingularity shell a.sif b.sh 1\n", []),
    ("!nvidia-smi\n! test -d a\necho $SLUM_JOB_NAME $SLUG_NAME\n", ["syntax", "slurm-variable"]),
    ('f() {\n  local a="$(./b | sort)"\n  if [ $? -ne 0 ]; then exit; fi\n}\n', ["lost-status"]),
    ("a=$(./b)\nc=$?\nexport d=$((1 + 2))\ne=$?\n", []),
    ("CUDA_VISIBLE_DEVICES=0,1\n./a\n", []),
    ("echo `cat <<EOF\n#SBATCH -N 2\nEOF\n", ["syntax"]),
    ("cat <<EOF\n#SBATCH -N 2\nEOF\n./a\n#SBATCH -N 2\n", ["late-directive"]),
    ("conda activate a\n", ["conda-activate"]),
    ("source conda.sh\nconda activate a\n", []),
    ("ml Miniforge3\nconda activate a\nml r tan\n", []),
    ('./a\necho done\n\n# status\necho "$?"\n./a\nwait\nif [ $? = 0 ]; then ./b; fi\n', ["lost-status"] * 2),
    ("./a; echo '$?'; X=$?; false || echo a; X=$?\nif ./a; then\n  echo b\nelse\n  X=$?\nfi\nwait $!\nX=$?\n", []),
    ("mpirun -n 2 ./a &\n", ["no-wait"]),
    ("tensorboard --logdir x & python train.py\n", []),
    ("mpirun -n 2 ./a &\n./b\n", []),
    ("./a &\nsleep 60\nexport OMP_NUM_THREAD=4\necho $OMP_NUM_THREAD\n", []),
    (RUN + "bash -c '. /usr/local/Modules/init/bash && module load R && Rscript a.R'\n", []),
    (RUN + "bash -c 'module load R && Rscript a.R'\n", ["host-command"]),
    (RUN + "bash -c './a $(scontrol show hostnames)'\n", ["host-command"]),
    (RUN + 'bash -c "./a \\$(scontrol show hostnames)"\n', ["host-command"]),
    ("export SINGULARITY_BIND=/data\n" + RUN + "./a\n", ["bind-replaced"]),
]
"""Lines with one fault each, for rules that no script of the corpus violates."""
DIRECTIVES = [
    ("--time=1- --mem=64gb", "", []),
    ("--signal=USR1@90", "source x/bin/activate\nnvidia-smi\npython t.py\n", ["signal"]),
    ("--signal=USR1@90", "srun python t.py\n", []),
    ("--signal=USR1@90", "./launch.sh\n", []),
    ("--signal=B:TERM@90", "trap 'touch x' TERM\npython t.py\nwait\n", ["signal"]),
    ("--signal=B:TERM@90", "trap 'touch x' TERM\npython t.py &\nwait\n", []),
    ("-n 1 -c 4 --mem=8G", "gcta64 --thread-num 8\nsamtools sort -@ 8 a.bam\n", ["too-many-threads"]),
    ("-n 1 --mem=8G", "export OMP_NUM_THREADS=8\nbowtie2 -x i -p 4 -U a\n", ["too-many-threads"]),
    ("-n 1 --mem=8G", "nextflow run a --threads 8\n./a --threads 1\nOMP_NUM_THREADS=$SLURM_NTASKS ./a\n", []),
    ("-n 8 -c 2 --mem=8G", "srun -n1 -c16 ./a --threads 16\n./a --threads=16 --threads_max 99\n", []),
    ("--exclusive -n 1 -c 2", "./a --threads 64\n", []),
    ("--gres=gpu:gtx1080ti-11g:2", "CUDA_VISIBLE_DEVICES=0,2 ./a\n", ["missing-device"]),
    ("--gres=gpu:a100-sxm4:4 -n 1", "export CUDA_VISIBLE_DEVICES=0,1,2,3\n", []),
    ("--gres=gpu:2g.20gb:1 -n 1", "export CUDA_VISIBLE_DEVICES=$X\nCUDA_VISIBLE_DEVICES=0 ./a\n", []),
    ("--export==A", "", ["misplaced-equals"]),
    ("--mem=1G", "./a $SLURM_GPUS_PER_TASK $SLURM_NTASKS\necho $SLURM_CPUS_PER_TASK\n", ["slurm-variable"]),
    ("-c 4", "./a ${SLURM_CPUS_PER_TASK} ${SLURM_NTASKS_PER_NODE:-1}\n", []),
    ("-o SHAREDDIR/a", "mkdir SHAREDDIR", []),
    ("-w me@gpu -q your_qos\n#SBATCH -p queue_of_your_choice -o /path/to/a -C changeme@gpu", "", ["bad-value"] * 4),
    ("-w nn<XXXX>k -D your/path/to/a", "", ["bad-value"]),
    ("--mail-user=NETID@nyu.edu", "", ["mail-address"]),
    ("-t 1\n#SBARCH --exclusive\n#aSBATCH --exclusive", "", ["misspelt-directive"]),
    ("--mem=64Gi --time=3h", "", ["bad-value"] * 2),
    ("--mem-per-cpu=1.5G", "", ["bad-value"]),
    ("--nodes=2", "", ["repeated-option"]),
    ("hetjob\n#SBATCH -N 4 -p standard-g", "srun --het-group=1 -N 4 ./a\n", []),
    ("--output=/tmp/x.log", "", ["log-directory"]),
    ("-o log/a/%j.out", "mkdir log\n", []),
    ("-q YOUR_GRANT", "", ["bad-value"]),
    ("-n 1 -N 4", "srun ./a\n", ["contradiction", "repeated-option"]),
    ("-N 4 --ntasks-per-node=40", "python run.py 160 4\n", ["repeated-option"]),
    ("--gpus=1", "pip install --upgrade pip\npython t.py\n", []),
    ("--output=~/x.log", "", ["directive-variable"]),
    ("--export=FOO=1 -p [name]", "srun hostname\n", ["bad-value", "export-none"]),
    ("--signal=USR1@5m", "./a\n", ["signal"]),
    ("-o log/%x/%a-%j.out", "", []),
    ("--array=1-9 -e /a/b/log/a.out", 'cd /a/c\nmkdir log\nsed -n "${SLURM_ARRAY_TASK_ID}p" f\n', []),
    ("-c 4 -n 2 --mem=8G", "java -Xmx8000m -jar a.jar\nTrinity --CPU 8\necho --threads 9\n", []),
    ("--gpus-per-node=2 -a 0-9", 'sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" f\nexport CUDA_VISIBLE_DEVICES=0,1\n', []),
    ("--signal=B:TERM@60 --j a", "", []),
    ("--comment=a b", "", ["bad-value"]),
    ("--comment='a b' --wait --nice", "", []),
    ("--time={LIMIT} --cluster=a\n#SBATCH --ntasks=XXXmpinodesXXX", "", []),
    ("-t 1", "sbatch $(cat <<!EOF\n#SBATCH -N 1\n!EOF\n)\n", []),
    ("--signal=B:USR1@15 --gres=gpu:v100:1 -n @n@ -a 1-9 -o x.log --open-mode=append", "trap 'rm x' USR1\n", []),
    ("--gpus-per-node=v100:x --gres=gpu:v100:x", "", ["bad-value"] * 2),
    ("--array=1-9 -o x.log", "", ["array-log"]),
    ("--array=1-1 -o x.log", "", []),
    ("-t 1\n# SBATCH --exclusive\n#sbatch -N 4 a.sh\n#PBS -l nodes=1", "", []),
    ("-t 1\n#BATCH --exclusive\n#sbatch --ntasks=4\n #SBATCH -c 1\n#SBATPH -n 1", "", ["misspelt-directive"] * 4),
    ("-n 40\n#SBATCH --mincpus=40\n#SBATCH -o <name>.o%j", "STAR --runThreadN 8\necho \u201cdone\u201d", []),
    ("--mail-type=end,TIME_LIMIT_80 --array=[1-9:2],11%3 -o %3a --gpus-per-task=1\n#SBATCH --res=a (1)", "", []),
    ("--mail-type=STARTED --array=1-<n> --time=\n#SBATCH --mail-user=  # whom?\n#SBATCH -J", "", ["bad-value"] * 4),
    ("--mail-type=START,END", "", ["mail-address"]),
    ("--mail-type=none\n#SBATCH --mail-user=YOUR_EMAIL", "", []),
    ("--comment=my acccount", "", ["bad-value"]),
    ("-J {{name}}\n{% if exclusive %}\n#SBATCH --exclusive\n{% endif %}", "", []),
    ("-t 1\n<%\nx (\n-%>\n#SBATCH -n 1\n<%= y %>", "srun ./a", []),
    ("-n 2", "module load pytorch-gpu/py3\nconda activate a\nsrun python a.py\n", []),
    ("-n 2", "uenv miniconda\nconda activate a\nsrun python a.py\n", []),
    ("-n 2", "module load openblas\nOPENBLASROOT=${OPENBLAS_ROOT}\nsrun ./a $OPENBLASROOT\n", []),
    ("--mem=1G --mem-per-cpu=1G", "", ["contradiction"]),
    ("-n 5 --ntasks-per-node=4", "srun ./a", ["contradiction"]),
    ("-n 3 --ntasks-per-node=4", "srun ./a", ["idle-tasks"]),
    ("-n 4 --ntasks-per-node=4\n#SBATCH --mail-type=END,FAIL\n#SBATCH --mail-type=NONE", "srun ./a", []),
    ("--mail-type=END\n#SBATCH --mail-type=FAIL", "", ["repeated-option"]),
    ("--mail-type=END\n#SBATCH --mail-type=all", "", []),
    ("--output=logs/xxx.out -n XXXnodesXXX -t @TIME", "", []),
    ("--mail-user=add.your@own.mail", "", ["mail-address"]),
    ("--mail-user=user.email@site.edu", "", ["mail-address"]),
    ("--mail-user=[your email]", "", ["bad-value", "mail-address"]),
    ("--mail-user=xxzh@umich.edu", "", []),
    ("--mail-user=milove@email.unc.edu", "", []),
    ("-a 1-2 -o {{log}}", "", []),
    ("-n 4", "mpirun -np 8 ./a\n", ["mpirun"]),
    ("-n 4", "mpirun -np 4 ./a\nmpirun --oversubscribe -np 8 ./a\n", []),
    ("-c 4", "echo > x$task_\ntask=1\n(( total = 1 ))\necho $total\necho $totals\n", ["misspelt-variable"] * 2),
    ("-c 4", "run_title=a\ncp ${run_title1}/b c\n", ["misspelt-variable"]),
    ("-c 4", "model=a\nepochs=1\necho $fold $model\n", []),
    ("--gpus-per-node=2 -p standard-g", "", ["billed-gpus"]),
    ("-t 240s\n#SBATCH --ntasks=NB_NODE", "", ["bad-value"]),
    ("-n _N_ -t 1\n#SBATCH -o ${A}\n#SBATCH -J ${B}\n#SBATCH -e ${C}\n#SBATCH -w ${D}", "", []),
    ("-t 1\n@more@\n#SBATCH --ntasks=4", "", []),
    ("-t 1\n${CMD}\n#SBATCH --ntasks=4", "", ["late-directive"]),
    ("-t 1\n./a\n#SBATCH --ntasks=4\n...", "", ["late-directive"]),
    ("-D ${HOME}\n#SBATCH -o ${HOME}/a\n#SBATCH -e ${HOME}/b\n#SBATCH -i ${HOME}/c", "", ["directive-variable"] * 4),
    ("--export=A=1  # SLURM_EXPORT_ENV", "srun ./a  # SLURM_EXPORT_ENV\n", ["export-none"]),
    ("--export=A=1", "unset SLURM_EXPORT_ENV\nsrun ./a\n", []),
    ("--export=NONE", "module load slurm_setup\nsrun ./a\n", []),
    ("-J $USER", "", []),
    ("-N a", "", ["bad-value"]),
    ("-o a\n#SBATCH -o b", "", ["repeated-option"]),
    ("-g4", "", ["unknown-option"]),
    ("--memory=4G\n#SBATCH --cpus=4", "", ["unknown-option"] * 2),
    ("--qos=<qos> -C your-account\n#SBATCH -w FIXME", "", ["bad-value"] * 3),
    ("-J <name> --mail-user=<me@site.edu>\n#SBATCH -o @<x> --comment=FIXME -C yours", "", []),
    ("--mail-user=<me>@site.edu", "", ["mail-address"]),
    ("--mail-user=YOUR_EMAIL", "", ["mail-address"]),
    ("--mail-user=yourie@site.edu", "", []),
    ("-t 1\n# THIS FILE IS A TEMPLATE\n${MORE}\n#SBATCH --ntasks=4", "", []),
    ("--mail-type=START", "", ["bad-value"]),
    ("--gpus-per-node=gpu:8", "", ["bad-value"]),
    ("\u2013-time=10", "", ["typeset-characters"]),
]

SCRIPTS = [
    ("--mail-user=%u@nyu.edu", "", ["mail-address"]),
    ("-c 1 -n 1 --mem=1G", "snakemake --cores 12\n", ["too-many-threads"]),
    ("-c 1 -n 1 --mem=1G", "snakemake --cores 12 --profile slurm\n", []),
    ("-d afterok:$jobId -D $workDir\n#SBATCH -o $workDir/a", "", []),
    ("-o $workDir/a", "", ["directive-variable"]),
    ("-A account -p partition --qos=[gpu]", "", ["bad-value"] * 3),
    ("-A projecta -p project -C [v100]", "", []),
    ("-A pi-[cnetid]\n#SBATCH -p", "", ["bad-value"] * 2),
    ("--account=\n#SBATCH -D /path/x --qos=naiss-XXXX", "", ["missing-option", "bad-value", "bad-value"]),
    ("-p node_name", "", ["bad-value"]),
    ("--partition=#####_super", "", []),
    ("--gpus:tesla:4", "", ["unknown-option"]),
    ("-n 1", '[ "$1"=="a" ] && ./a\n', ["syntax"]),
    ("-n 1", '[ "$1" == "a=b" ] && [[ a=b ]] && [ -n "$1" ] && ./a\n', ["syntax"]),
    ("-n 1", 'A="$$SCRATCH/a" ./a\n', ["syntax"]),
    ("-n 1", "awk '{print $$NF}' \"/tmp/$$\"\n", []),
    ("-n 1", 'OUT="path to an existing directory"\n', ["placeholder"]),
    ("-n 2", "srun -n 1 ./a &\nsrun -n 1 ./a\n", ["no-wait"]),
    ("-n 2", "srun -n 1 ./monitor &\nsrun -n 1 ./a\n", []),
    ("-n 1", "LOGS=a\necho ${logs}/x\n", ["misspelt-variable"]),
    ("-n 1", "export USER_DIR=a\ncp $USER_DIR b\n", []),
    ("-n 1", "./a\necho b\nsbatch <<END\nexit \\$?\nEND\n", []),
    ("-n 1", "D=$(dirname $0)\n. ${F:-$D/f}\n", []),
    ("-N 8 -n 500", "julia a.jl\n", []),
    ("-n 1", "for a in b; do\n  #SBATCH -N 2\n  ./a\ndone\n", ["late-directive"]),
    ("--nodes=\t## set it", "", ["bad-value"]),
    ("-n 1 -c 2", "if a; then\n  N=384\nfi\nexport OMP_NUM_THREADS=$N\n./a\n", []),
    ("-n 1", "opts=1\n./a ${opts} ${opts1}\n", []),
    ("-n 2", "./work &\nsleep 9\n./work\n", []),
    ("-n 2", "./work &\n./work\necho done\n", ["no-wait"]),
    ("-p node", "", []),
    ("-n 1\n#sbatch -n 1", "", []),
    ("-n 1\n#sbatch -n 2", "", ["misspelt-directive"]),
    ("-n 1", "./a '[training-dir]/x.tar'\n", ["placeholder"]),
    ("-n 1", "./a 'x[file_name]' [CHAIN_DIR]\n", []),
    ("-n 1", "if then\n./a <the input> <the output>\n", ["syntax"]),
    ("-n 1", "./a <the input>\n./a <the output>\n", ["syntax", "syntax"]),
    ("-n 2 -A ACCOUNT -p PARTITION -w NODELIST -t TIME", "", []),
    ("-N 2 -c 1", "./a.out\n", ["idle-tasks"]),
    ("-N 2 -c 1", "echo $SLURM_JOB_NODELIST\nbowtie2 -x a b\n", ["idle-tasks"]),
    ("-N 2 -c 1", "./a\nbash run.sh\n", []),
]


@pytest.mark.parametrize(("asked", "line", "rules"), SCRIPTS)
def test_a_script_for_any_machine(asked: str, line: str, rules: list[str]) -> None:
    script = f"#!/bin/bash\n#SBATCH {asked}\n{line}"
    assert [fault.rule for fault in lint_job(script, site("generic"))] == rules


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("conda activate a", 'Write eval "$(conda shell.bash hook)" above it.'),
        ("mamba activate a", 'Write eval "$(conda shell.bash hook)" above it, and conda activate.'),
        ("micromamba activate a", 'Write eval "$(micromamba shell hook --shell bash)" above it.'),
        ("cp a b$SLURM_JOB_ID_0", "Write ${SLURM_JOB_ID}_0."),
        ("srun --export-all --mpi=pmi2 ./a", "Write --export=ALL"),
        ("cp a b$SLURM_JOBID_", "Write ${SLURM_JOBID}_."),
        ("cp a b$SLURM_JOB_IDD", "Write $SLURM_JOB_ID."),
        (
            'bash -c "one \\\n  --config your_config.yaml and many more words, so that not all is shown"',
            "Write the value itself, here and below.",
        ),
    ],
)
def test_a_cure_that_works(line: str, cure: str) -> None:
    script = f"#!/bin/bash\n#SBATCH -n 1\n{line}\n"
    assert [fault.cure for fault in lint_job(script, site("generic"))] == [cure]


@pytest.mark.parametrize(("line", "rules"), COMMAND_LINES)
def test_a_command_that_another_shell_reads(line: str, rules: list[str]) -> None:
    assert rules_of(line) == rules


@pytest.mark.parametrize(("asked", "line", "rules"), DIRECTIVES)
def test_a_directive_that_means_something_else(asked: str, line: str, rules: list[str]) -> None:
    script = f"#!/bin/bash\n#SBATCH -A p -N 1\n#SBATCH {asked}\n{line}"
    assert [fault.rule for fault in lint_job(script, site("lumi"))] == rules


def test_a_script_with_a_single_directive_or_none() -> None:
    merged = "<<<<<<< HEAD\n#!/bin/bash\n#SBATCH -N 1\n=======\n>>>>>>> a\n"
    assert [fault.rule for fault in lint_job(merged, site("generic"))] == ["no-shebang", "syntax"]
    for asked, rule in (("# SBATCH -t 1", "misspelt-directive"), ("#SBATCH --gpus-per-task=1", "contradiction")):
        assert [fault.rule for fault in lint_job(f"#!/bin/bash\n{asked}\n", site("generic"))] == [rule]
    missing = "#!/usr/env/bin bash\n#SBATCH -n 1\n"
    assert [fault.rule for fault in lint_job(missing, site("generic"))] == ["no-shebang"]
    notes = "some notes\n#SBATCH -n 1\n"
    assert [fault.rule for fault in lint_job(notes, site("generic"))] == ["no-shebang"]
    for line in ("screen -S work srun --pty bash", "salloc bash x.sh"):  # on a login node
        assert lint_job(f"#!/bin/bash\n{line}\n", site("generic")) == ()
    writer = "cat >x.sh <<EOF\n#SBATCH -N 2\nEOF\n#SBATCH -N 2\n"
    line = 'cd "$(dirname "${BASH_SOURCE[0]}")"\n'
    assert lint_job(f"#!/bin/bash\n{line}{writer}", site("lumi")) == ()
    assert rules_of(line) == ["script-directory"]
    assert lint_job("#!/bin/bash\n#SBATCH -n 8 -p core\npython t.py\n", site("generic")) == ()  # of one node
    script = "#!/bin/bash\n{} SBATCH -A p --gpus-per-task=1\n"
    assert [fault.rule for fault in lint_job(script.format("#"), site("lumi"))] == ["misspelt-directive"]
    assert [fault.rule for fault in lint_job(script.replace(" SB", "SB").format("#"), site("lumi"))] == [
        "contradiction"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "MASTER_ADDR=$(hostname) srun python t.py",  # first node's own name
        "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 9999))",  # a port of the job
        'srun bash -c "echo \\$SLURM_PROCID"',  # escaped
        "echo 'a # b \\\n  c'",  # a number sign in quotes
        "for i in 1 2; do srun -N1 -n1 a & done; wait",  # loop of steps, awaited
        'export APPTAINER_BINDPATH="$APPTAINER_BINDPATH,/data"',  # bind added
        "srun --cpu-bind=mask_cpu:$(hpcmod masks) singularity exec $SIF pip list",  # masks not known
        "srun -N1 -n1 -c8 bash -c 'while :; do date; sleep 9; done' & wait",  # a monitor step
        "bash -c 'while :; do date; sleep 9; done' &",  # a monitor on the first node
        "srun bash -c 'sleep 0.$SLURM_LOCALID; ls'",  # ranks kept apart
        'srun bash -c "export RANK=\\$SLURM_PROCID; exec ./a"',  # rank in the step, escaped
        'srun bash -c "export MASTER_ADDR=$(hostname); ./a"',  # first node's name in the step
        "export ROCR_VISIBLE_DEVICES=0,1,2,3",  # some of the devices
        "ROCR_VISIBLE_DEVICES=0 srun --ntasks-per-node=1 ./a",  # one device for one task
        "srun -n64 -c7 ./a",  # CPUs of the job are not known
        "singularity exec $SIF python t.py\nsrun ./a",  # once, before the ranks
        "singularity exec $SIF python t.py\ntimeout 30 srun ./a",  # before ranks behind a program
        "module load AI/TensorFlow/2\nsrun singularity exec $SIFTENSORFLOW ls",  # a path's middle
        "module load $MINE\nsrun singularity exec $SIFTENSORFLOW ls",  # modules not known
        "module restore mine\nsrun singularity exec $SIFTENSORFLOW ls",  # modules of a collection
        "srun -N1 ./a &\nsrun -N1 ./b &\nwait",  # steps on a node each
        "srun --exact --gpus=8 ./a &\nsrun --exact --gpus=8 ./b &\nwait",  # steps with parts
        "srun ./server &\nsrun --overlap ./client",  # a client beside a server
        "srun bash -c './a > out.$SLURM_PROCID'",  # a file for each
        'cd $(dirname "$(readlink -f "$1")"); [ -n "$PBS_JOBID" ] && echo $PBS_JOBID =====',
        "srun --export=$NAMES ./a; srun --container-image=a --export=X=1 ./a",
        "export HF_DATA=a CACHE=/tmp/x-$SLURM_NODEID\nHF_DATA_PATH=a",  # each node has its own
        'export SINGULARITY_BIND=/data; srun singularity exec a.sif bash -c "./a $(scontrol show hostnames)"',
        "srun -n2 --ntasks-per-node=1 torchrun --node_rank $SLURM_NODEID --rdzv_backend c10d t.py",  # ignored
    ],
)
def test_a_right_line_gives_none(line: str) -> None:
    assert rules_of(f"{line}\n") == []


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("srun conda-python-distributed t.py", ["no-container"]),
        ("echo $((1 << N))\n#SBATCH -N 2", ["late-directive"]),
        ("srun env MASTER_ADDR=$(hostname) python t.py", ["master-addr"]),
        ("srun -N4 singularity exec $SIF conda-python-distributed t.py", ["step-too-big"]),
        ("srun echo $SLURM_PROCID", ["early-expansion"]),
        ("srun -N2 -n2 --ntasks-per-node=1 torchrun --node_rank $SLURM_NODEID t.py", ["early-expansion"]),
        ('srun echo "$SLURM_PROCID"', ["early-expansion"]),
        ("echo a # b \\\n  >c", ["broken-continuation"]),
        ("for i in 1 2; do srun -N1 -n1 a & done", ["no-wait"]),
        ("srun singularity exec -e $SIF conda-python-distributed t.py", ["clean-environment"]),
        ('srun bash -c "export RANK=$SLURM_PROCID; exec ./a"', ["early-expansion"]),
        ('srun bash -c "export MASTER_ADDR=\\$(hostname); ./a"', ["master-addr"]),
        ("singularity exec $SIF python t.py", ["no-srun"]),
        ("nsys profile -o x srun singularity exec $SIF torchrun t.py", []),
        ('x=`sed -n "$SLURM_ARRAY_TASK_ID"p f`\necho $x', []),
        ("srun singularity exec --contain $SIF conda-python-distributed t.py", []),
        ("srun ./a\nsingularity exec $SIF torchrun t.py", ["no-srun"]),
        ("module unload TensorFlow\nsrun singularity exec $SIFTENSORFLOW ls", ["other-module"]),
        ("srun sh -c 'torchrun t.py'", ["launcher-tasks"]),
        ("srun --export=NIL ./a", ["export-none"]),
        ("export MASTER_PORT=$((SLURM_JOB_ID % 65536))", ["changing-port"]),
        ("srun ./a > out.$SLURM_PROCID", ["early-expansion"]),
        ("srun -n8 -N1 -c8 ./a", ["too-many-cpus"]),
        ("srun singularity exec docker-archive:x.tar conda-python-simple -c 1", ["registry-image"]),
        ("srun ./a \u2013-lr 1", ["typeset-characters"]),
    ],
)
def test_a_wrong_line_gives_its_rule(line: str, rules: list[str]) -> None:
    assert rules_of(f"{line}\n") == rules


@pytest.mark.parametrize(
    ("asked", "step", "rules"),
    [
        pytest.param("-N1 -n1 -c56", "srun -n8 -c7 ./a", [], id="CPUs of one task for eight"),
        pytest.param("-N1 -n8 -c7", "srun -n16 -c7 ./a", [], id="CPUs that a whole node has"),
        pytest.param("-N1 -n8 -c7", "srun -n32 -c7 ./a", ["step-too-big"], id="CPUs that no node has"),
        pytest.param("-N2-4 -n8 -c7", "srun -N4 -n8 -c7 ./a", [], id="nodes of a range"),
        pytest.param("-N2-4 -n8 -c7", "srun -N5 -n8 -c7 ./a", ["step-too-big"], id="nodes beyond a range"),
        pytest.param("-n16 -c7 -G16", "srun -c7 ./a", [], id="GPUs of nodes that Slurm counts"),
        pytest.param("-N1 -n8 -c7 -G16", "srun -c7 ./a", ["too-many-gpus"], id="GPUs of one node"),
        pytest.param("-N1 -n8 -c7", "srun -n1 mkdir -p x", [], id="a tool needs no CPUs"),
        pytest.param("-N 2 -n 2", "module load R\npython t.py", ["idle-tasks"], id="nodes that nothing uses"),
        pytest.param("-N 2 --ntasks-per-node=2", "python t.py", [], id="a program that may start ranks"),
        pytest.param("-n 8", "python t.py", ["idle-tasks"], id="tasks that nothing starts"),
        pytest.param("-n 8", "pip list\nSTAR --runThreadN 8", ["idle-tasks"], id="threads that are requested as tasks"),
        pytest.param("-n 8", "python t.py $SLURM_NTASKS", [], id="a program that knows its tasks"),
        pytest.param("-n 8", "python run_all.py", [], id="a program that may start others"),
        pytest.param("-n 8", "matlab -batch a &\nwait", ["idle-tasks"], id="one program in the background"),
        pytest.param("-n 8", "$RUN python t.py", [], id="a launcher that is not known"),
        pytest.param("-n 8", "python a.py &\npython b.py &\nwait", [], id="programs at the same time"),
        pytest.param("-N 1 -n 8", "python t.py", [], id="CPUs of one node"),
        pytest.param("-G 1", "torchrun --nproc_per_node=2 t.py", ["too-many-workers"], id="workers of all nodes"),
    ],
)
def test_what_a_job_requests_is_compared_with_what_it_starts(asked: str, step: str, rules: list[str]) -> None:
    script = f"#!/bin/bash\n#SBATCH -A p\n#SBATCH -p standard-g -t 10\n#SBATCH {asked}\n{step}\n"
    assert [fault.rule for fault in lint_job(script, site("lumi"))] == rules


@pytest.mark.parametrize(
    ("before", "goes_on"),
    [
        ("exec </dev/null", True),
        ("exec  > >(tee log) 2>&1", True),
        ("exec {log}>log", True),
        ("exit=0", True),
        ("cd $X ||  # gone\nexit 1", True),
        ("exec ./a | tee log", True),
        ("f() {\n  exit\n}", True),
        ("[ $X ] || exit", True),
        ("exec julia <<EOF\n1\nEOF", True),
        ("exit 0  # done", False),
        ("exec ./a \\\n  > log", False),
    ],
)
def test_what_follows_the_end_of_a_script_is_not_read(before: str, goes_on: bool) -> None:
    assert rules_of(f"{before}\nmodule laod R\n") == ["module-path"] * goes_on


@pytest.mark.parametrize("line", ["# a\n", "cat <<EOF\n", "exit\n"])
@pytest.mark.slow
def test_a_long_script_is_read_in_seconds(line: str) -> None:
    start = process_time()
    lint_job(HEAD + line * 20_000, site("lumi"))
    assert process_time() - start < 10


LOADS = ("module load -s X", "module --force purge; ml X", "ml -t +X", "module restore")
LOADS_NOTHING = ("module --force purge", "module list", "ml", "ml avail X", "ml -X", "module -t use X")


@pytest.mark.parametrize("line", [*LOADS, *LOADS_NOTHING])
def test_recognizes_lines_that_load_a_module(line: str) -> None:
    script = HEAD.replace("module load X", line) + "srun singularity exec $SIF ls\n"
    assert [fault.rule for fault in lint_job(script, site("lumi"))] == ([] if line in LOADS else ["no-module"])


def test_a_missing_flag_is_fine_where_the_profile_sets_it() -> None:
    amd = site("lumi")._replace(gpu=Gpus(runtime_flags=("--rocm",)))
    assert lint_job(HEAD + "srun singularity exec $SIF ls\n", amd) == ()


def test_a_key_required_by_one_machine_is_missing_only_there() -> None:
    script = HEAD.replace("-A p ", "")
    assert "missing-option" in [fault.rule for fault in lint_job(script, site("marenostrum5"))]
    assert "missing-option" not in [fault.rule for fault in lint_job(script, Site("ours"))]


def test_deep_nesting_does_not_make_it_fail() -> None:
    found = lint_job("#!/bin/bash\n" + 'a "$(' * 5000, site("lumi"))
    assert ("syntax", 1) in [(fault.rule, fault.line) for fault in found]
