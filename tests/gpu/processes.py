#!/usr/bin/env python3
"""Tests several processes and vGPUs: what they see, that quotas hold, and that killed processes are refunded."""

import json
import re
import signal
import time

from harness import (EXAMPLES, GiB, MiB, PYTHON, SIM, VIRGATE, Nvml, Suite, check, need_module,
                     need_program, os, run_inside, size_text, start_inside, stop, subprocess, vgpu, virgate,
                     wait_for, wait_idle)

GROW, MATMUL = f"{EXAMPLES}/grow", f"{EXAMPLES}/matmul"
UNIT = 128 * MiB if SIM else GiB  # the unit of the sizes below
BIG = 4 if SIM else 20


def units(count):
    return f"{int(count * UNIT) // MiB}M"


CHUNK, SMALL_CHUNK = units(1 / 16), units(1 / 32)


def granted(text):
    found = re.search(r"grow: .*?\((\d+) bytes\)", text)
    check(found, f"grow said: {text.strip()}")
    return int(found.group(1))


def nvidia_smi():
    program = need_program("nvidia-smi")
    done = run_inside({"memory": "3G"}, [program, "--query-gpu=memory.total,memory.used,memory.free",
                                         "--format=csv,noheader,nounits"])
    lines = done.stdout.strip().splitlines()
    check(len(lines) == 1, f"it shows {len(lines)} GPUs: {done.stdout}")
    total, used, free = (int(part) for part in lines[0].split(","))
    check(total == 3072, f"it shows {total} MiB of 3072")
    check(used + free <= total and free > 0, f"used {used}, free {free} of {total}")
    table = run_inside({"memory": "3G"}, [program]).stdout
    check("3072MiB" in table.replace(" ", ""), table[-600:])
    return f"{total} MiB, {used} used"


def device_query():
    done = run_inside({"memory": units(5)}, [f"{EXAMPLES}/device_query"])
    total = int(re.search(r"memory .*?\((\d+) bytes\)", done.stdout).group(1))
    check(total == 5 * UNIT, done.stdout)
    check("1 device\n" in done.stdout, done.stdout)


def two_vgpus():
    size, seconds = ("128", "3") if SIM else ("2048", "4")
    left = start_inside({"name": "left", "memory": units(4)}, [MATMUL, "--size", size, "--seconds", seconds])
    right = start_inside({"name": "right", "memory": units(2)}, [GROW, "--chunk", CHUNK, "--exact", "--hold", "1"])
    try:
        line, errors = right.communicate()
        check(right.returncode == 0 and "out of memory" in line, f"{line} {errors}")
        check(granted(line) <= 2 * UNIT, line)
        check("vGPU right: asked" in errors, errors)
        out, errors = left.communicate()
        check(left.returncode == 0 and "correct" in out, f"{out} {errors}")
        check("asked" not in errors, errors)
        return f"{size_text(granted(line))} for the grower; {out.strip()}"
    finally:
        stop(left)
        stop(right)


def two_in_one():
    virgate("create", "both", "--memory", units(4))
    programs = [start_inside({"vgpu": "both"}, [GROW, "--chunk", SMALL_CHUNK, "--exact", "--hold", "2"])
                for _ in range(2)]
    try:
        outputs = [program.communicate() for program in programs]
        total = 0
        for program, (out, errors) in zip(programs, outputs):
            check(program.returncode == 0, f"{out} {errors}")
            total += granted(out)
        check(2 * UNIT <= total <= 4 * UNIT, f"{size_text(total)} of {units(4)}")
        wait_for(lambda: vgpu("both")["charged"] == 0, 5, "everything refunded when both had ended")
        return f"{size_text(total)} together"
    finally:
        for program in programs:
            stop(program)
        virgate("rm", "both")


def killed(nvml):
    virgate("create", "victim", "--memory", units(BIG + 4))
    program = start_inside({"vgpu": "victim"}, [GROW, "--chunk", units(1), "--most", units(BIG), "--hold", "60"])
    try:
        check("grow:" in program.stdout.readline(), "grow did not start")
        one = vgpu("victim")
        pid = one["tenants"][0]["pid"]
        check(one["charged"] >= BIG * UNIT, f"charged {size_text(one['charged'])}")
        physical = nvml.processes().get(pid, 0)
        check(physical >= BIG * UNIT, f"NVML sees {size_text(physical)}")
        start = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        released = refunded = None
        while refunded is None and time.monotonic() - start < 10:
            charged = vgpu("victim")["charged"]
            used = pid in nvml.processes()
            if not used and released is None:
                released = time.monotonic()
            if charged == 0:
                refunded = time.monotonic()
                check(released is not None, "refunded while the driver still held the memory")
        check(refunded, "never refunded")
        check(refunded - released <= 1.0, f"refunded {refunded - released:.2f} s after the release")
        return (f"released {1e3 * (released - start):.0f} ms after the kill, "
                f"refunded {1e3 * (refunded - released):.0f} ms later")
    finally:
        stop(program)
        virgate("rm", "victim")


def shell_children():
    words = (f'"{GROW}" --most {units(1 / 8)} --chunk {CHUNK} && "{GROW}" --most {units(1 / 4)} --chunk {CHUNK} & '
             f'"{EXAMPLES}/vector_add" 5000 && wait')
    done = run_inside({"memory": units(4)}, ["/bin/sh", "-c", words])
    check(done.stdout.count("as much as asked") == 2 and "elements correct" in done.stdout, done.stdout)


def fork_after_init():
    need_module("torch")
    code = ("import torch, os\n"
            "torch.zeros(1, device='cuda')\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    os.execv('%s', ['grow', '--most', '128M', '--chunk', '64M'])\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
            "assert float(torch.ones(10, device='cuda').sum()) == 10\n"
            "print('both')" % GROW)
    done = run_inside({"memory": "4G"}, [PYTHON, "-c", code])
    check("both" in done.stdout and "as much as asked" in done.stdout, done.stdout)


def live_resize():
    virgate("create", "grows", "--memory", units(2))
    program = start_inside({"vgpu": "grows"}, [GROW, "--chunk", CHUNK, "--exact", "--hold", "20"])
    try:
        first = granted(program.stdout.readline())
        done = refused("set", "grows", "--memory", units(1))
        check(re.search(r"\d", done), f"refused without numbers: {done}")
        virgate("set", "grows", "--memory", units(4))
        second = run_inside({"vgpu": "grows"}, [GROW, "--chunk", CHUNK, "--exact"])
        check(granted(second.stdout) >= UNIT, second.stdout)
        return f"{size_text(first)}, then {size_text(granted(second.stdout))} more"
    finally:
        stop(program)
        wait_for(lambda: not vgpu("grows")["tenants"], 10, "the programs to end")
        virgate("rm", "grows")


def refused(verb, *words):
    """Runs a verb that must fail, and returns its message on standard error."""
    done = subprocess.run([VIRGATE, verb, *(["--sim"] if SIM else []), *words], capture_output=True, text=True,
                          check=False)
    check(done.returncode != 0, f"{verb} {' '.join(words)} was taken")
    return done.stderr.strip()


def refused_admission(nvml):
    total = nvml.memory()["total"]
    errors = refused("create", "toolarge", "--memory", f"{total // MiB + 1024}M")
    check("GiB" in errors, f"refused without numbers: {errors}")
    return errors


def many_at_once():
    programs = [start_inside({"memory": units(2)}, [f"{EXAMPLES}/vector_add", "5000"]) for _ in range(20)]
    try:
        for program in programs:
            out, errors = program.communicate()
            check(program.returncode == 0 and "correct" in out, f"{out} {errors[-400:]}")
    finally:
        for program in programs:
            stop(program)


def exit_codes():
    for code in (0, 7, 124):
        done = run_inside({"memory": units(1)}, ["/bin/sh", "-c", f"exit {code}"], good=False)
        check(done.returncode == code, f"exit {code} came back as {done.returncode}")
    done = run_inside({"memory": units(1)}, ["/bin/sh", "-c", "kill -TERM $$"], good=False)
    check(done.returncode == 128 + signal.SIGTERM, f"SIGTERM came back as {done.returncode}")


def ledger_is_clean():
    left = [one for one in json.loads(virgate("ps", "--json"))["vgpus"] if one["tenants"] or one["charged"]]
    check(not left, f"still there: {left}")


def main():
    suite = Suite()
    nvml = Nvml()
    wait_idle(nvml)
    suite.test("device_query sees the quota", device_query)
    if not SIM:
        suite.test("nvidia-smi sees the quota", nvidia_smi)
    suite.test("two vGPUs at once", two_vgpus)
    suite.test("two programs in one vGPU", two_in_one)
    suite.test("kill -9 is refunded in time, not before", killed, nvml)
    suite.test("programs started by a shell", shell_children)
    if not SIM:
        suite.test("fork and exec after CUDA has started", fork_after_init)
    suite.test("live resize", live_resize)
    suite.test("admission stops at the device", refused_admission, nvml)
    suite.test("20 programs at once", many_at_once)
    suite.test("exit codes", exit_codes)
    suite.test("nothing is left over", ledger_is_clean)
    suite.end()


if __name__ == "__main__":
    main()
