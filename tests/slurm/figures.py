#!/usr/bin/env python3
"""figures.py BUILD [STARTS]: measures what a vGPU costs a job of Slurm, on simulated GPUs. Prints one line for each
figure.

1. The time from srun's start to the first instruction of a task: in turn with a vGPU, with --gres=gpu:1, and with
   --gres=gpu:1 in a cluster without the plugin. The median of the differences counts.
2. 200 jobs that hold their memory for 1 s, of which 8 run at a time, each in a vGPU: how many jobs were lost, and how
   long all of them took.
3. What an idle daemon costs: memory, processor time, wakeups.
The exit status is 1 if a figure misses its limit: 50 ms more for a start, no job lost, no vGPU left.
"""
import pathlib
import statistics
import sys
import time

import cluster as slurm

LIMIT_MS, JOBS = 50, 200


def measure_start(c, *words):
    """Returns the milliseconds from the call of srun until its task begins. Waits for the end of earlier jobs first."""
    c.wait_for_nodes()
    begin = time.time()
    done = c.srun("-wnode1", *words, "/bin/date", "+%s.%N")
    return (float(done.stdout) - begin) * 1000


def compare_starts(c, plain, count):
    rows = []
    for _ in range(count):
        rows.append((measure_start(c, "--gres=shard:1", "--vgpu-memory=1G"), measure_start(c, "--gres=gpu:1"),
                     measure_start(plain, "--gres=gpu:1")))
    vgpu, gpu, bare = (statistics.median(row[i] for row in rows) for i in range(3))
    more = statistics.median(row[0] - row[1] for row in rows)
    most = statistics.median(row[0] - row[2] for row in rows)
    print(f"start of a job, medians of {count}: {vgpu:.1f} ms with a vGPU, {gpu:.1f} ms with --gres=gpu:1, "
          f"{bare:.1f} ms with --gres=gpu:1 and no plugin; the vGPU costs {more:+.1f} ms, with the plugin "
          f"{most:+.1f} ms")
    return max(more, most) <= LIMIT_MS


def run_many(c):
    out = c.directory / "jobs"
    program = f"{c.build}/examples/grow --chunk 16M --no-touch --hold 1"
    begin = time.monotonic()
    for _ in range(JOBS // 50):
        c.sbatch(program, "--array=1-50", "--vgpu-memory=1G", "--gres=shard:1", "-o", f"{out}/many-%A-%a.out")
    slurm.wait_until("all jobs end", lambda: not c.call(["squeue", "-h"]).stdout.strip(), 900, look=c.log)
    seconds = time.monotonic() - begin
    texts = [path.read_text() for path in out.glob("many-*.out")]
    whole = sum("out of memory; free" in text for text in texts)
    outside = sum(float(text.split(" MiB")[0].split()[-1]) >= 1024 for text in texts if " MiB" in text)
    c.wait_until_clean()
    charged = sum("0 B" not in line for node in c.nodes for line in node.virgate("ps", "--sim").stdout.splitlines()[1:])
    print(f"{JOBS} jobs of 1 s over 8 vGPUs: {whole} ran to their end, {outside} outside their quota, {charged} vGPUs "
          f"left, {seconds:.0f} s")
    return whole == JOBS and not outside and not charged


def read_daemon(pid):
    process = pathlib.Path(f"/proc/{pid}")
    fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return ((int(fields[11]) + int(fields[12])) / 100, int(status["VmRSS"].split()[0]),
            int(status["voluntary_ctxt_switches"]))


def measure_daemon(c, vgpus, seconds=10):
    node = c.nodes[0]
    for index in range(vgpus):
        node.virgate("create", f"idle-{index}", "--memory", "256M", "--sim")
    first = read_daemon(node.daemon.pid)
    time.sleep(seconds)
    last = read_daemon(node.daemon.pid)
    for index in range(vgpus):
        node.virgate("rm", f"idle-{index}", "--sim")
    busy = (last[0] - first[0]) / seconds * 100
    print(f"daemon with {vgpus} vGPUs: {last[1] / 1024:.1f} MiB resident, {busy:.2f} % of a processor, "
          f"{(last[2] - first[2]) / seconds:.1f} wakeups a second")


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    why = slurm.find_problem(build)
    if why:
        print(f"skip: needs {why}")
        return 77
    with slurm.Cluster(build) as c:
        with slurm.Cluster(build, nodes=1, plugin=False) as plain:
            good = compare_starts(c, plain, count)
        measure_daemon(c, 0)
        measure_daemon(c, 8)
    with slurm.Cluster(build, nodes=1, gpus=1) as c:  # the GPU has eight shards, so eight jobs run at a time
        good &= run_many(c)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
