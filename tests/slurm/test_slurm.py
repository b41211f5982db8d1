#!/usr/bin/env python3
"""test_slurm.py BUILD [WORD]: jobs of a real Slurm in vGPUs on simulated GPUs. Runs the tests whose names contain WORD.

A cluster of two nodes serves most tests; two others have another configuration. A test waits for events, leaves no job,
and every vGPU must be gone after it. A test that cannot run raises Skip.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys
import traceback

import cluster as slurm

USER, OTHER = slurm.NOBODY, 1  # two users that exist on every machine
EXAMPLES = ""
MIB = 1 << 20
PLAIN, ONE_GPU, LUA = "plain", "one GPU in each node", "with job_submit.lua"
TESTS = {PLAIN: [], ONE_GPU: [], LUA: []}  # the tests that need each of the three clusters


class Skip(Exception):
    pass


def test(function, where=PLAIN):
    TESTS[where].append(function)
    return function


def test_in(where):
    return lambda function: test(function, where)


def check(condition, *seen):
    if not condition:
        raise AssertionError("\n".join(str(part) for part in seen))


def grow(*words):
    return [f"{EXAMPLES}/grow", "--chunk", "16M", *words]


def read_number(pattern, text):
    """Returns the number before `pattern`, such as " bytes)"."""
    return int(text.split(pattern)[0].split()[-1].strip("("))


@test
def quota_holds_and_vgpu_goes(c):
    done = c.srun("--vgpu-memory=1G", "--gres=shard:1", f"{EXAMPLES}/vector_add", user=USER)
    check("1048576 elements correct" in done.stdout, done)
    done = c.srun("--vgpu-memory=1G", "--gres=shard:1", *grow(), user=USER)
    taken = read_number(" bytes)", done.stdout)
    check(900 * MIB < taken < 1024 * MIB, done)
    check("vGPU slurm-" in done.stderr and "of 1024.0 MiB used" in done.stderr, done)
    c.wait_until_clean()


@test
def all_tasks_share_the_quota(c):
    done = c.srun("--vgpu-memory=1G", "--gres=shard:1", "-n4", *grow("--hold", "1"), user=USER)
    sums = [read_number(" bytes)", line) for line in done.stdout.splitlines()]
    check(len(sums) == 4 and sum(sums) < 1024 * MIB, done)


def index_of(node, uuid):
    """Returns the index of the GPU with this UUID in the daemon's list. Slurm uses the same index."""
    for line in node.virgate("devices", "--sim").stdout.splitlines():
        if uuid in line.split():
            return line.split()[0]
    raise AssertionError(f"no GPU {uuid}")


@test
def job_is_on_the_gpu_that_slurm_chose(c):
    job = c.sbatch("sleep 600", "-wnode1", "--gres=gpu:1")  # this job takes the first GPU
    c.wait_for(job, "RUNNING")
    done = c.srun("-wnode1", "--gres=shard:1", "--vgpu-memory=1G", "sh", "-c",
                  "echo $SLURM_STEP_GPUS $CUDA_VISIBLE_DEVICES", user=USER)
    chosen, uuid = done.stdout.split()
    check(chosen == "1" and index_of(c.nodes[0], uuid) == chosen, done)
    c.call(["scancel", job])


@test
def whole_gpu_with_vgpus_is_refused(c):
    job = c.sbatch("sleep 600", "-wnode1", "--gres=shard:1", "--vgpu-memory=1G", user=USER)
    slurm.wait_until("the vGPU", lambda: f"slurm-{job}" in c.nodes[0].vgpus(), look=c.log)
    done = c.srun("-wnode1", "--gres=gpu:1", "/bin/echo", "started", check=False, user=OTHER)
    check(done.returncode and f"another job has the vGPU slurm-{job}" in done.stderr and not done.stdout, done)
    check(c.srun("-wnode1", "--gres=shard:1", "/bin/echo", "started").stdout == "started\n")
    c.call(["scancel", job])
    c.wait_until_clean()
    check(c.srun("-wnode1", "--gres=gpu:1", "/bin/echo", "started").stdout == "started\n")


@test
def steps_and_script_are_in_one_vgpu(c):
    script = f"""printenv VIRGATE_VGPU
srun -n1 printenv VIRGATE_VGPU
srun -n2 {EXAMPLES}/vector_add
srun -n1 {' '.join(grow('--most', '256M', '--hold', '3'))} &
srun -n1 {' '.join(grow('--most', '256M', '--hold', '3'))} &
wait"""
    job = c.sbatch(script, "-n4", "--overcommit", "--vgpu-memory=1G", "--gres=shard:1", user=USER)
    check(c.wait_for_end(job) == "COMPLETED", c.output(job), c.log())
    lines = c.output(job).splitlines()
    check(lines[:2] == [f"slurm-{job}"] * 2, lines)
    check(sum("elements correct" in line for line in lines) == 2, lines)
    check(sum("256.00 MiB" in line for line in lines) == 2, lines)


@test
def profile_is_a_size(c):
    job = c.sbatch("sleep 600", "-wnode1", "--vgpu=1g-25", "--gres=shard:2", user=USER)
    slurm.wait_until("the vGPU", lambda: f"slurm-{job}" in c.nodes[0].vgpus(), look=c.log)
    vgpu = json.loads(c.nodes[0].virgate("inspect", f"slurm-{job}", "--sim", "--json").stdout)["vgpu"]
    check((vgpu["memory"], vgpu["share"], vgpu["class"]) == (1 << 30, 25, "latency"), vgpu)
    c.call(["scancel", job])
    job = c.sbatch(f"srun {EXAMPLES}/vector_add; srun --vgpu=3g {EXAMPLES}/vector_add", "--vgpu=1g-25",
                   "--gres=shard:2", user=USER)
    check(c.wait_for_end(job) == "FAILED", c.output(job))
    check("elements correct" in c.output(job) and "the job's vGPU has 1.0 GiB" in c.output(job), c.output(job))


@test
def usage_is_in_the_comment(c):
    job = c.sbatch(" ".join(grow("--hold", "0.5")), "--vgpu=1g-25", "--gres=shard:2", "--comment=mine", user=USER)
    check(c.wait_for_end(job) == "COMPLETED", c.output(job))
    check(c.comment(job).startswith("mine; virgate: node"), c.comment(job), c.log())
    check("1.0 GiB of 1.0 GiB used at most" in c.comment(job) and "1 requests refused" in c.comment(job),
          c.comment(job))
    job = c.sbatch(" ".join(grow("--most", "512M", "--hold", "600")), "--vgpu-memory=1G", "--gres=shard:1", user=USER)
    slurm.wait_until("the program has its memory", lambda: "512.00 MiB" in c.output(job), look=c.log)
    c.call(["scancel", job])
    c.wait_until_clean()
    logs = "".join(path.read_text() for path in c.directory.glob("*-slurmd.log"))
    check(f"job {job}: virgate: " in logs and "528.0 MiB of 1.0 GiB used at most" in logs, logs[-4000:])


@test
def step_cannot_have_more_than_its_job(c):
    job = c.sbatch(f"srun --vgpu-memory=4G {EXAMPLES}/vector_add", "--vgpu-memory=1G", "--gres=shard:1", user=USER)
    check(c.wait_for_end(job) == "FAILED")
    check("the job's vGPU has 1.0 GiB" in c.output(job), c.output(job))
    job = c.sbatch(f"_SLURM_SPANK_OPTION_virgate_vgpu_memory=4G srun {' '.join(grow())}", "--vgpu-memory=1G",
                   "--gres=shard:1", user=USER)
    c.wait_for_end(job)
    check("of 1024.0 MiB used" in c.output(job) or "the job's vGPU has" in c.output(job), c.output(job))


@test
def two_users_at_once(c):
    jobs = [c.sbatch(" ".join(grow("--hold", "4")), "-wnode1", "--vgpu-memory=1G", "--gres=shard:1", user=user)
            for user in (USER, OTHER, USER)]
    for job in jobs:
        check(c.wait_for_end(job) == "COMPLETED", c.output(job), c.log())
        check(900 * MIB < read_number(" bytes)", c.output(job)) < 1024 * MIB, c.output(job))


@test
def another_users_vgpu_is_refused(c):
    job = c.sbatch("sleep 60", "-wnode1", "--vgpu-memory=1G", "--gres=shard:1", user=USER)
    c.wait_for(job, "RUNNING")
    slurm.wait_until("the vGPU", lambda: f"slurm-{job}" in c.nodes[0].vgpus())
    done = c.nodes[0].virgate("run", "--sim", "--vgpu", f"slurm-{job}", "--", f"{EXAMPLES}/vector_add", user=OTHER,
                              check=False)
    check(done.returncode and f"slurm-{job}" in done.stderr, done)
    c.call(["scancel", job])


@test
def tasks_choose_gpus_of_a_vgpu_job(c):
    node, inner = c.nodes[0], f"{EXAMPLES}/devices"
    environment = dict(node.environment(c.common), PATH=f"{c.build}/cli:{slurm.SEARCH}")
    blocker = c.sbatch("sleep 600", "-wnode1", "--gres=gpu:1")  # so the GPU of the first job is not that of index 0
    c.wait_for(blocker, "RUNNING")
    for gpus, binding, indices in ((1, "-n1", ["1"]), (2, "-n2 --gpu-bind=single:1", ["0", "1"])):
        job = c.sbatch(f"virgate run --sim --gpus {gpus} --memory 1G -- srun {binding} {inner}", "-wnode1", "-n2",
                       f"--gres=gpu:{gpus}", user=USER, environment=environment)
        check(c.wait_for_end(job) == "COMPLETED", c.output(job), c.log())
        uuids = [word for word in c.output(job).split() if word.startswith("GPU-")]
        check(sorted(index_of(node, uuid) for uuid in uuids) == indices, c.output(job))
        check(c.output(job).count("of 1024 MiB free") == gpus, c.output(job))
        c.call(["scancel", blocker])


@test
def array_job(c):
    job = c.sbatch(f"{EXAMPLES}/vector_add; printenv VIRGATE_VGPU", "--array=0-5", "--vgpu-memory=1G",
                   "--gres=shard:1", "-o", f"{c.directory}/jobs/array-%a.out", user=USER)
    slurm.wait_until("the array ends", lambda: not c.call(["squeue", "-h", "-j", job], check=False).stdout.strip())
    texts = [(c.directory / "jobs" / f"array-{index}.out").read_text() for index in range(6)]
    check(all("elements correct" in text for text in texts), texts)
    check(len({text.split()[-1] for text in texts}) == 6, texts)


@test
def scancel_ends_the_vgpu(c):
    job = c.sbatch(" ".join(grow("--most", "512M", "--hold", "600")), "--vgpu-memory=1G", "--gres=shard:1", user=USER)
    slurm.wait_until("the program has its memory", lambda: "512.00 MiB" in c.output(job), look=c.log)
    c.call(["scancel", job])
    check(c.wait_for_end(job) == "CANCELLED")
    c.wait_until_clean()
    for node in c.nodes:
        check("512" not in node.virgate("devices", "--sim").stdout, node.virgate("devices", "--sim").stdout)


@test
def process_that_left_its_session_ends_too(c):
    program = " ".join(grow("--most", "512M", "--hold", "600"))
    job = c.sbatch(f"setsid --fork {program} &\nsleep 600", "--vgpu-memory=1G",
                   "--gres=shard:1", user=USER)
    slurm.wait_until("the program has its memory", lambda: "512.00 MiB" in c.output(job), look=c.log)
    c.call(["scancel", job])
    c.wait_until_clean()


@test
def job_killed_before_its_start(c):
    before = c.call(["squeue", "-h"]).stdout
    jobs = [c.sbatch("sleep 30", "--vgpu-memory=512M", "--gres=shard:1", user=USER) for _ in range(8)]
    c.call(["scancel", *jobs])
    for job in jobs:
        check(c.wait_for_end(job) == "CANCELLED", before)
    c.wait_until_clean()


@test
def bad_input(c):
    gres = "--gres=shard:1"
    for words, sentence in (
            (["--vgpu-memory=quark", gres], '"quark" is not a size'),
            (["--vgpu-memory=-1G", gres], '"-1G" is not a size'),
            (["--vgpu-memory=1e9", gres], '"1e9" is not a size'),
            (["--vgpu-memory=0", gres], '"0" is not a size'),
            (["--vgpu-share=101", gres], '"101" is not'),
            (["--vgpu-share=1x", gres], '"1x" is not'),
            (["--vgpu-memory=100G", gres], "larger than GPU"),
            (["--vgpu=nobody", gres], 'no profile "nobody" on this machine; the profiles are 1g-25, 3g, huge'),
            (["--vgpu=../x", gres], '"../x" is not the name of a profile'),
            (["--vgpu=huge", gres], "larger than GPU"),
            (["--vgpu=3g", "--vgpu-memory=1G", gres], "leave out --vgpu-memory"),
            (["--vgpu-memory=1G"], "add --gres=shard:N"),
            (["--vgpu-memory=1G", "--gres=gpu:2"], "several GPUs")):
        done = c.srun(*words, "/bin/true", check=False, user=USER)
        check(done.returncode and sentence in done.stderr, words, done)
        c.wait_until_clean()
    c.wait_for_nodes()  # a refused request must not make Slurm drain the node


@test
def forged_options(c):
    # Set the variables by which Slurm passes on the options of a plugin, as a user could: neither sbatch nor srun has
    # checked them.
    for name in ("_SLURM_SPANK_OPTION_virgate_vgpu_memory", "SPANK__SLURM_SPANK_OPTION_virgate_vgpu_memory",
                 "SLURM_SPANK__SLURM_SPANK_OPTION_virgate_vgpu_memory"):
        for value in ("9999G", "../../etc", "%s%n", "1G;rm"):
            done = c.srun("--gres=shard:1", "sh", "-c", "echo vgpu=$VIRGATE_VGPU", user=USER, check=False,
                          environment=dict(c.environment, **{name: value}))
            check(done.stdout in ("", "vgpu=\n"), name, value, done)
    done = c.srun("--gres=shard:1", "--vgpu-memory=1G", *grow(), user=USER, environment=dict(
        c.environment, VIRGATE_LEDGER="/tmp/x", VIRGATE_SOCKET="/tmp/x", VIRGATE_VGPU="x", CUDA_VISIBLE_DEVICES="7"))
    check("of 1024.0 MiB used" in done.stderr, done)
    c.wait_until_clean()
    c.wait_for_nodes()  # wrong variables must not make Slurm drain the node


@test
def no_room(c):
    node = c.nodes[0]
    index = c.srun("-wnode1", "--gres=shard:1", "--vgpu-memory=512M", "printenv", "CUDA_VISIBLE_DEVICES").stdout.strip()
    node.virgate("create", "big", "--memory", "7680M", "--device", index, "--sim")
    done = c.srun("-wnode1", "--gres=shard:1", "--vgpu-memory=1G", "/bin/true", check=False, user=USER)
    check(done.returncode and "virgate:" in done.stderr and "GPU" in done.stderr, done)
    node.virgate("rm", "big", "--sim")


LIMITS = """[user nobody]
memory = 1536M
share = 40
vgpus = 2
class = batch
[group daemon]
memory = 1G
share = 30
"""


@contextlib.contextmanager
def limits_of_users(c):
    path = c.directory / "virgate.conf"
    before = path.read_text()
    path.write_text(before + LIMITS)
    try:
        yield
    finally:
        path.write_text(before)


def check_refused(c, user, words, sentence):
    done = c.srun("-wnode1", "--gres=shard:1", *words, "/bin/true", user=user, check=False)
    check(done.returncode and sentence in done.stderr, words, done)


@test
def limits_of_users_and_groups_hold_for_jobs(c):
    of_user, of_group = "but user nobody may have", "but the members of group daemon together may have"
    with limits_of_users(c):
        check_refused(c, USER, ["--vgpu-memory=2G"], f"asked for 2.0 GiB, {of_user} 1.5 GiB of GPU memory")
        check_refused(c, USER, ["--vgpu=3g"], f"asked for 3.0 GiB, {of_user} 1.5 GiB of GPU memory")
        check_refused(c, USER, ["--vgpu-memory=1G", "--vgpu-share=41"], f"share of 41 %, {of_user} shares of 40 %")
        check_refused(c, USER, ["--vgpu=1g-25"], f"{of_user} vGPUs of the class batch only")
        check_refused(c, OTHER, ["--vgpu-memory=1200M"], f"asked for 1.2 GiB, {of_group} 1.0 GiB of GPU memory")
        check_refused(c, OTHER, ["--vgpu-memory=1G", "--vgpu-share=31"], f"share of 31 %, {of_group} shares of 30 %")
        jobs = [c.sbatch("sleep 600", "-wnode1", "--vgpu-memory=512M", "--gres=shard:1", user=user)
                for user in (USER, USER, OTHER)]
        for job in jobs:
            slurm.wait_until("the vGPU", lambda name=f"slurm-{job}": name in c.nodes[0].vgpus(), look=c.log)
        check_refused(c, USER, ["--vgpu-memory=512M"], "user nobody may have 2 vGPUs")
        check_refused(c, OTHER, ["--vgpu-memory=1G"], "have 512.0 MiB, so 512.0 MiB is left")
        c.call(["scancel", *jobs])
        c.wait_until_clean()
        done = c.srun("-wnode1", "--gres=shard:1", "--vgpu-memory=1G", f"{EXAMPLES}/vector_add", user=USER)
        check("elements correct" in done.stdout, done)
    c.wait_for_nodes()  # no node is drained


@test
def leftover_goes_when_its_room_is_needed(c):
    node = c.nodes[0]
    for name in ("slurm-4000000", "slurm-4000001"):
        for device in "01":
            node.virgate("create", f"{name}{device}", "--memory", "3840M", "--device", device, "--sim")
    done = c.srun("-wnode1", "--gres=shard:1", "--vgpu-memory=1G", f"{EXAMPLES}/vector_add", user=USER)
    check("elements correct" in done.stdout, done)
    c.wait_until_clean()


@test
def leftover_goes_when_slurmd_starts(c):
    node = c.nodes[0]
    job = c.sbatch("sleep 600", "-wnode1", "--vgpu-memory=1G", "--gres=shard:1", user=USER)
    c.wait_for(job, "RUNNING")
    slurm.wait_until("the vGPU", lambda: f"slurm-{job}" in node.vgpus())
    node.virgate("create", "slurm-4000002", "--memory", "1G", "--sim")
    node.virgate("create", "slurm-x", "--memory", "1G", "--sim")
    node.stop(node.slurmd)
    node.start_slurmd()
    slurm.wait_until("the leftover goes", lambda: "slurm-4000002" not in node.vgpus(), look=c.log)
    check({f"slurm-{job}", "slurm-x"} <= set(node.vgpus()), node.vgpus())
    node.virgate("rm", "slurm-x", "--sim")
    c.wait_for_nodes_to_answer()
    c.call(["scancel", job])
    c.wait_until_clean()


@test
def job_survives_slurmd_and_daemon(c):
    node = c.nodes[0]
    job = c.sbatch(f"for i in 1 2 3 4 5 6; do srun {EXAMPLES}/vector_add || exit; sleep 1; done", "-wnode1",
                   "--vgpu-memory=1G", "--gres=shard:1", user=USER)
    slurm.wait_until("the first step", lambda: "correct" in c.output(job), look=c.log)
    node.stop(node.daemon, signal.SIGKILL)
    node.start_daemon()
    node.stop(node.slurmd, signal.SIGKILL)
    node.start_slurmd()
    check(c.wait_for_end(job) == "COMPLETED", c.output(job), c.log())
    check(c.output(job).count("correct") == 6, c.output(job))
    c.wait_until_clean()


@test
def node_without_daemon(c):
    node = c.nodes[0]
    node.stop(node.daemon)
    done = c.srun("-wnode1", "--gres=shard:1", "--vgpu-memory=1G", "/bin/true", check=False, user=USER)
    check(done.returncode and "no daemon listens" in done.stderr, done)
    done = c.srun("-wnode1", "--gres=shard:1", "/bin/echo", "without", user=USER)
    check(done.stdout == "without\n", done)
    node.start_daemon()


@test
def vgpu_whose_epilog_found_no_daemon(c):
    node = c.nodes[0]
    job = c.sbatch("sleep 600", "-wnode1", "--vgpu-memory=7G", "--gres=shard:7", user=USER)
    slurm.wait_until("the vGPU", lambda: f"slurm-{job}" in node.vgpus(), look=c.log)
    node.stop(node.daemon, signal.SIGKILL)
    c.call(["scancel", job])
    slurm.wait_until("the job is over", lambda: not c.call(["squeue", "-h"]).stdout.strip(), look=c.log)
    node.start_daemon()
    check(node.vgpus() == [f"slurm-{job}"], node.vgpus())
    # The vGPU of the ended job still exists, and its memory is needed for one of these two jobs.
    jobs = [c.sbatch("sleep 1; echo started", "-wnode1", "--gres=shard:8", "--vgpu-memory=7G", user=USER)
            for _ in range(2)]
    for job in jobs:
        check(c.wait_for_end(job) == "COMPLETED", c.output(job), c.log())
    c.wait_until_clean()


@test
def name_that_another_user_took(c):
    node = c.nodes[0]
    last = int(c.sbatch("true"))
    c.wait_for_end(last)
    for number in range(last + 1, last + 4):
        node.virgate("create", f"slurm-{number}", "--memory", "2G", "--device", "0", "--sim", user=OTHER)
    done = c.srun("-wnode1", "--vgpu-memory=1G", "--gres=shard:1", *grow(), user=USER)
    check("of 1024.0 MiB used" in done.stderr, done)
    for name in node.vgpus():
        node.virgate("rm", name, "--sim", "--force", user=0, check=False)


@test
def job_without_options_is_not_touched(c):
    done = c.srun("--gres=shard:1", "env", user=USER)
    check("VIRGATE" not in done.stdout and "LD_PRELOAD" not in done.stdout, done)


def make_lua_script(c):
    """Writes the example of the job submit script beside slurm.conf, adapted to the sizes of this cluster."""
    source = pathlib.Path(__file__).resolve().parents[2] / "integrations/slurm/job_submit.lua"
    text = source.read_text(encoding="utf-8")
    for old, new in (("shards_per_gpu = 16 ", "shards_per_gpu = 8 "),
                     ("shard_memory = 512 * 2^20", "shard_memory = 2^30"),
                     ('"/etc/virgate/virgate.conf"', f'"{c.directory}/virgate.conf"')):
        check(text.count(old) == 1, old)
        text = text.replace(old, new)
    (c.directory / "job_submit.lua").write_text(text)


def shards_of(c, job):
    return c.job(job)["TresPerNode"]


@test_in(LUA)
def options_become_shards(c):
    for words, shards in ((["--vgpu-memory=1G"], 1), (["--vgpu-memory=2560M"], 3), (["--vgpu-share=50"], 4),
                          (["--vgpu-memory=1G", "--vgpu-share=25"], 2), (["--vgpu=1g-25"], 2), (["--vgpu=3g"], 3),
                          (["--gres=gpu:1"], 8),
                          (["--vgpu-memory=1G", "--gres=shard:4"], 4)):
        job = c.sbatch("echo $VIRGATE_VGPU", *words, user=USER)
        check(shards_of(c, job) == f"gres:shard:{shards}", words, c.job(job))
        check(c.wait_for_end(job) == "COMPLETED", c.output(job))
        check(c.output(job).strip() == ("" if words == ["--gres=gpu:1"] else f"slurm-{job}"), words, c.output(job))


@test_in(LUA)
def too_few_shards_are_refused(c):
    for words, sentence in ((["--vgpu-memory=4G", "--gres=shard:1"], "needs --gres=shard:4"),
                            (["--vgpu-memory=9G"], "larger than a GPU"), (["--vgpu=huge"], "larger than a GPU"),
                            (["--gres=gpu:2"], "several GPUs"),
                            (["--gpus=1"], "by --gres=gpu:1")):
        done = c.call(["sbatch", *words, "--wrap", "true"], check=False, user=USER)
        check(done.returncode and sentence in done.stderr, words, done)
    forged = dict(c.environment, _SLURM_SPANK_OPTION_virgate_vgpu_memory="7G")
    done = c.srun("--vgpu-memory=1G", "--gres=shard:1", *grow(), environment=forged, user=USER, check=False)
    check("of 1024.0 MiB used" in done.stderr or done.returncode, done)


@test_in(LUA)
def whole_and_shared_never_meet(c):
    jobs = [c.sbatch("sleep 2; echo $SLURM_JOB_GPUS", *words, user=USER)
            for words in (["--vgpu-memory=1G"], ["--gres=gpu:1"], ["--gres=gpu:1"], ["--gres=gpu:1"],
                          ["--vgpu-memory=6G"]) * 2]
    for job in jobs:
        check(c.wait_for_end(job) == "COMPLETED", job, c.output(job))


def count_tenants(node):
    return node.virgate("ps", "--sim").stdout.count(" tenant ")


def submit_requeue(c, images, **more):
    """Submits the example of a job that moves, and waits until its program runs. Returns the job, and its node before
    the other one."""
    images.mkdir()
    environment = dict(c.environment, VIRGATE_IMAGES=str(images), PATH=f"{c.build}/cli:{slurm.SEARCH}", **more)
    source = pathlib.Path(__file__).resolve().parents[2] / "examples/slurm/requeue.sbatch"
    out = c.call(["sbatch", "--parsable", "-o", f"{c.directory}/jobs/%j.out", "--vgpu-memory=1G", "--gres=shard:1",
                  source, c.build / "tests/checkpoint/tenant", images / "report", 64, 1, 2], environment=environment)
    job = int(out.stdout)
    slurm.wait_until("the program runs", lambda: sum(map(count_tenants, c.nodes)) == 1,
                     look=lambda: c.output(job) + c.log())
    return job, *sorted(c.nodes, key=count_tenants, reverse=True)


@contextlib.contextmanager
def drained(c, node):
    c.call(["scontrol", "update", f"node={node.name}", "state=drain", "reason=test"])
    try:
        yield
    finally:
        c.call(["scontrol", "update", f"node={node.name}", "state=resume"])


@test_in(ONE_GPU)
def job_moves_to_the_other_node(c):
    criu = os.environ.get("VIRGATE_CRIU") or shutil.which("criu", path=slurm.SEARCH)
    if not criu:
        raise Skip("CRIU 4.1, in PATH or in VIRGATE_CRIU")
    job, old, new = submit_requeue(c, c.directory / "images", VIRGATE_CRIU=criu)
    look = lambda: c.output(job) + c.log()  # noqa: E731
    before = old.virgate("ps", "--sim").stdout
    with drained(c, old):
        c.call(["scancel", "--batch", "--signal=USR1", job])
        slurm.wait_until("the program runs on the other node", lambda: count_tenants(new) == 1, look=look)
        slurm.wait_until("the restore is reported", lambda: "restored process" in c.output(job), look=look)
        pid = [line.split()[0] for line in before.splitlines() if " tenant " in line][0]
        check(pid in new.virgate("ps", "--sim").stdout, before, new.virgate("ps", "--sim").stdout)
        check(not old.vgpus(), old.vgpus())
        check(c.job(job)["Restarts"] == "1", c.job(job))
    c.call(["scancel", job])  # this also ends the restored process
    c.wait_until_clean()
    slurm.wait_until("the process is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists())


@test_in(ONE_GPU)
def image_moves_to_the_other_node(c):
    # A stand-in for CRIU writes an image, but cannot restore a process. The job must keep the image then.
    images, standin = c.directory / "kept", c.directory / "standin"
    standin.mkdir()
    (standin / "fail").write_text("restore\n")
    script = pathlib.Path(__file__).resolve().parents[1] / "checkpoint/criu_standin.sh"
    job, old, new = submit_requeue(c, images, VIRGATE_CRIU=str(script), STANDIN=str(standin))
    with drained(c, old):
        c.call(["scancel", "--batch", "--signal=USR1", job])
        check(c.wait_for_end(job) == "FAILED", c.output(job), c.log())
    said, fields = c.output(job), c.job(job)
    check(f"job {job}: saved on {old.name}" in said and f"job {job}: continues on {new.name}" in said, said)
    check("told to fail" in said and fields["ExitCode"] == "125:0" and fields["Restarts"] == "1", said, fields)
    check([line.split()[0] for line in (standin / "said").read_text().splitlines()] == ["dump", "restore"],
          (standin / "said").read_text())
    check((images / str(job) / "virgate.json").exists(), list(images.iterdir()))


def make_cluster(build, where):
    if where == ONE_GPU:
        return slurm.Cluster(build, gpus=1)
    if where == PLAIN:
        return slurm.Cluster(build)
    c = slurm.Cluster(build, nodes=1, arguments=["shard_memory=1G"], extra="JobSubmitPlugins=lua")
    make_lua_script(c)
    return c


def run_test(c, function):
    """Runs a test. Returns how many tests have passed, failed and been skipped by it."""
    try:
        function(c)
        c.wait_until_clean()
        print(f"ok   {function.__name__}", flush=True)
        return 1, 0, 0
    except Skip as why:
        print(f"skip {function.__name__}: needs {why}", flush=True)
        return 0, 0, 1
    except Exception:  # pylint: disable=broad-except
        print(f"FAIL {function.__name__}", flush=True)
        traceback.print_exc(file=sys.stdout)
        c.clean_up()
        return 0, 1, 0


def run_tests(build, word):
    counts = (0, 0, 0)
    for where, functions in TESTS.items():
        chosen = [function for function in functions if word in function.__name__]
        if not chosen:
            continue
        with make_cluster(build, where) as c:
            for function in chosen:
                counts = tuple(map(sum, zip(counts, run_test(c, function))))
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 1 if counts[1] else 0 if counts[0] else 77


def main():
    global EXAMPLES  # pylint: disable=global-statement
    build, word = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else ""
    EXAMPLES = build / "examples"
    why = slurm.find_problem(build)
    if why:
        every = [function for functions in TESTS.values() for function in functions]
        for function in every:
            print(f"skip {function.__name__}: needs {why}")
        print(f"0 passed, 0 failed, {len(every)} skipped")
        return 77
    os.umask(0o022)
    return run_tests(build, word)


if __name__ == "__main__":
    sys.exit(main())
