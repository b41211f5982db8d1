#!/usr/bin/env python3
"""Tests evictable vGPUs: suspend and resume, and more vGPUs on a GPU than fit. Servers with device memory check it at
each request. A vGPU without programs reserves the rest of the GPU, so that the sizes are the same on every GPU.
eviction.py BUILD [CASE…] runs the named cases only."""

import os
import random
import select
import signal
import subprocess
import sys
import time

from harness import (GiB, HERE, MiB, PROGRAMS, PYTHON, SIM, VIRGATE, Failure, Nvml, Suite, check, inside, need_module,
                     vgpu, virgate, wait_for, wait_idle)

BUDGET = GiB // 2 if SIM else 24 * GiB
MEMORY = BUDGET * 6 // 10  # limit of each vGPU: two do not fit
SERVER_MIB = MEMORY * 8 // 10 // MiB // 2 * 2  # MiB of each server; cuMemCreate needs multiples of 2 MiB
FIXED = 40 * MiB if SIM else 2 * GiB
CYCLES = int(os.environ.get("CYCLES") or (20 if SIM else 1000))
CYCLES_MIB = int(os.environ.get("CYCLES_MIB") or (32 if SIM else 256))
CYCLES_SLACK = 2 * MiB  # difference of NVML's figures that is allowed after all cycles


class Server:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(inside({"vgpu": name}, command),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True)

    def answer(self, seconds):
        """Returns the next line, or None if it does not come within that time."""
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        line = os.read(self.process.stdout.fileno(), 64)
        if not line:
            errors = self.process.communicate()[1]
            raise Failure(f"{self.name} has ended with {self.process.returncode}: {errors[-600:]}")
        return line.decode().strip()

    def send(self, words):
        self.process.stdin.write(f"{words}\n".encode())
        self.process.stdin.flush()

    def expect(self, words, seconds=60):
        line = self.answer(seconds)
        check(line == words, f"{self.name}: {line} instead of {words}")

    def ask(self, words, answer, seconds=60):
        begun = time.monotonic()
        self.send(words)
        self.expect(answer, seconds)
        return time.monotonic() - begun

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def create(name, options=()):
    virgate("create", name, "--memory", f"{MEMORY // MiB}M", "--evictable", "--fixed", f"{FIXED // MiB}M", *options)


def server_command(value, *words):
    return [f"{PROGRAMS}/server", str(SERVER_MIB), str(value), *words]


def with_servers(count, function, nvml, command=server_command, options=()):
    """Starts `count` vGPUs, each with a server that command(value) starts, and calls function(servers)."""
    names = [f"server{i}" for i in range(count)]
    servers = []
    wait_idle(nvml)
    before = nvml.memory()["used"]
    try:
        for i, name in enumerate(names):
            create(name, options)
            servers.append(Server(name, command(i + 1)))
        for server in servers:
            server.expect("ready")
        return function(servers)
    finally:
        for server in servers:
            server.end()
        wait_idle(nvml)
        for name in names:
            virgate("rm", name, good=False)
        check(nvml.memory()["used"] <= before + 32 * MiB, "memory was left on the GPU")


def suspend_server(nvml, command=server_command):
    def run(servers):
        server = servers[0]
        server.ask("check", "right")
        there = nvml.memory()["used"]
        out = virgate("suspend", server.name)
        away = nvml.memory()["used"]
        # Pinned host memory has a page table on the GPU: 8 bytes for 4 KiB.
        check(there - away >= SERVER_MIB * MiB * 511 // 512 - 4 * MiB, f"only {(there - away) // MiB} MiB left the GPU")
        server.send("check")
        check(server.answer(0.5) is None, "it answered while its memory was away")
        virgate("resume", server.name)
        server.expect("right")
        for _ in range(3):
            virgate("suspend", server.name)
            virgate("resume", server.name)
        server.ask("check", "right")
        return out.strip().splitlines()[-1]

    return with_servers(1, run, nvml, command)


def suspends(nvml):
    return suspend_server(nvml)


def leaves_altogether(nvml, options, least):
    """Suspends with --deep: the driver takes the whole process off the GPU, so that it uses nothing there. At least
    `least` bytes must leave the GPU. In an evictable vGPU, memory that is in the host already must not be copied
    again."""
    name, server = "deep", None
    wait_idle(nvml)
    before = nvml.memory()["used"]
    virgate("create", name, "--memory", f"{MEMORY // MiB}M", *options)
    try:
        server = Server(name, server_command(7))
        server.expect("ready")
        server.ask("check", "right")
        there = nvml.memory()["used"]
        lines = []
        for is_second in (False, True):
            begun = time.monotonic()
            out = virgate("suspend", name, "--deep").strip().splitlines()[-1]
            middle = time.monotonic()
            away = nvml.memory()["used"]
            check(there - away >= least, f"only {(there - away) // MiB} MiB left the GPU")
            check(away <= before + 32 * MiB, f"{(away - before) // MiB} MiB of it are on the GPU")
            tenant = vgpu(name)["tenants"][0]
            check(tenant["deep"] == "done", f"listed as {tenant}")
            # Hashing is slow on the simulated GPU, so unchanged blocks are not recognised there.
            if is_second and options and not SIM:
                eviction = tenant["eviction"]
                check(eviction["unchanged"] == eviction["bytes"], f"only {eviction['unchanged']} bytes unchanged")
            # The daemon caches the driver's figure for a moment.
            wait_for(lambda: vgpu(name)["tenants"][0]["physical"] == 0, 5, "ps shows nothing of it on the GPU")
            server.send("check")
            check(server.answer(0.5) is None, "it answered while it was away")
            again = time.monotonic()
            virgate("resume", name)
            lines.append(f"{middle - begun:.2f} out, {time.monotonic() - again:.2f} s in")
            server.expect("right")
        server.ask("check", "right")
        return f"{'; '.join(lines)}; {out}"
    finally:
        if server:
            server.end()
        wait_idle(nvml)
        virgate("rm", name, good=False)


def suspends_deep(nvml):
    return leaves_altogether(nvml, ("--evictable", "--fixed", f"{FIXED // MiB}M"), SERVER_MIB * MiB)


def suspends_by_driver(nvml):
    """Suspends a vGPU that is not evictable. The driver must move all memory."""
    return leaves_altogether(nvml, (), SERVER_MIB * MiB)


def kill_with_children(process):
    try:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            for child in file.read().split():
                os.kill(int(child), signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass  # the processes have ended already
    process.kill()
    process.wait()


def recovers_deep(nvml):
    """Kills the command and its child at random times. After each time, resume must make the program run again."""
    name, chance = "deep", random.Random(2)
    virgate("create", name, "--memory", f"{MEMORY // MiB}M", "--evictable", "--fixed", f"{FIXED // MiB}M")
    server = None
    try:
        server = Server(name, server_command(9))
        server.expect("ready")
        virgate("suspend", name)  # pins host memory
        virgate("resume", name)
        states = []
        for _ in range(4 if SIM else 10):
            words = ["suspend", "--sim"] if SIM else ["suspend"]
            command = subprocess.Popen([VIRGATE, *words, name, "--deep"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(chance.random() * 1.2)
            kill_with_children(command)
            tenant = vgpu(name)["tenants"][0]
            states.append(tenant["deep"] or tenant["eviction"]["state"])
            if tenant["deep"] or tenant["eviction"]["suspended"]:
                virgate("resume", name)
            server.ask("check", "right")
        return " ".join(states)
    finally:
        if server:
            server.end()
        wait_idle(nvml)
        virgate("rm", name, good=False)


def suspends_created_memory(nvml):
    """Suspends memory of cuMemCreate: large pieces, and as many small pieces as an allocator has."""
    large = suspend_server(nvml, lambda value: server_command(value, str(SERVER_MIB // 6 * 2)))
    small = suspend_server(nvml, lambda value: server_command(value, str(2 if SIM else 20)))
    return f"{large}; {small}"


def suspends_expandable_segments(nvml):
    """Suspends memory of PyTorch's allocator that maps memory of cuMemCreate."""
    need_module("torch")
    return suspend_server(nvml, lambda value: ["env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", PYTHON,
                                               f"{HERE}/torch_server.py", str(SERVER_MIB), str(value)])


def copies_only_changes(nvml):
    """Checks that blocks of 2 MiB are not copied again if they have not changed since the last suspension."""
    mib = 32 if SIM else SERVER_MIB

    def unchanged(server):
        out = virgate("suspend", server.name)
        eviction = vgpu(server.name)["tenants"][0]["eviction"]
        check(eviction["hash_error"] == 0, f"hash error {eviction['hash_error']}")
        check(eviction["unchanged"] == 0 or "had not changed" in out, out)
        virgate("resume", server.name)
        return eviction["unchanged"], eviction["bytes"], out.strip().splitlines()[-1]

    def run(servers):
        server = servers[0]
        first, size, _ = unchanged(server)
        check(first == 0, f"{first} bytes unchanged the first time")
        again, _, words = unchanged(server)
        check(again == size, f"{again} of {size} bytes unchanged")
        server.ask("set 9 77", "set")
        server.ask(f"set {mib - 1} 77", "set")
        changed, _, _ = unchanged(server)
        check(changed == size - 4 * MiB, f"{size - changed} bytes changed instead of 4 MiB")
        server.ask("set 9 1", "set")
        server.ask(f"set {mib - 1} 1", "set")
        server.ask("check", "right")
        server.ask("write 5", "written")
        check(unchanged(server)[0] == 0, "all has changed")
        server.ask("check", "right")
        return words

    if SIM:
        os.environ["VIRGATE_SIM_HASH"] = "1"
    try:
        return with_servers(1, run, nvml, lambda value: [f"{PROGRAMS}/server", str(mib), str(value)])
    finally:
        os.environ.pop("VIRGATE_SIM_HASH", None)


def all_answer(nvml):
    """Sends requests to random servers: each is answered, and the memory is right."""
    def run(servers):
        chance = random.Random(1)
        waits = []
        end = time.monotonic() + (6 if SIM else 60)
        while time.monotonic() < end:
            waits.append(chance.choice(servers).ask("check", "right"))
            time.sleep(chance.random() * (0.2 if SIM else 0.5))
        moves = sum(tenant["eviction"]["moves"] for server in servers for tenant in vgpu(server.name)["tenants"])
        check(moves >= 2, f"{moves} moves")
        waits.sort()
        return f"{len(waits)} requests, {moves} moves, median {waits[len(waits) // 2]:.3f} s, longest {waits[-1]:.2f} s"

    return with_servers(3, run, nvml)


def running_and_suspended(servers):
    """Returns the server whose memory is on the GPU, and then the server whose memory is in the host."""
    def find():
        states = [vgpu(server.name)["eviction"]["state"] for server in servers]
        return states.index("running") + 1 if states.count("running") == 1 and states.count("out") == 1 else 0

    index = wait_for(find, 30, "one is there, and the other one is out") - 1
    return servers[index], servers[1 - index]


def survives_kill(nvml):
    def run(servers):
        first, second = running_and_suspended(servers)
        second.send("check")
        os.killpg(first.process.pid, signal.SIGKILL)
        second.expect("right", 20)

    return with_servers(2, run, nvml)


def kill_daemon():
    with open(f"{os.environ['VIRGATE_RUNTIME_DIR']}/lock", encoding="ascii") as file:
        os.kill(int(file.read().split()[0]), signal.SIGKILL)


def survives_daemon(nvml):
    """Kills the daemon. The next daemon must let the server run whose memory is in the host."""
    def run(servers):
        first, second = running_and_suspended(servers)
        kill_daemon()
        second.send("check")
        first.ask("check", "right")
        check(second.answer(0.5) is None, "it answered without a daemon")
        wait_for(lambda: vgpu(second.name), 10, "a new daemon")
        second.expect("right")
        first.ask("check", "right")

    return with_servers(2, run, nvml)


def waits_for_the_busy(nvml):
    """Suspends a server whose work lasts longer than the time limit. The work must not be interrupted, and the memory
    must leave afterwards. The program that waits must say for whom and why."""
    def run(servers):
        first, second = running_and_suspended(servers)
        first.ask("block 7", "begun")
        waited = second.ask("check", "right")
        check(waited > 5, f"it came in after {waited:.1f} s")
        errors = second.process.stderr
        words = os.read(errors.fileno(), 4096).decode() if select.select([errors], [], [], 0)[0] else "no message"
        check(f"vGPU {second.name}: the program has waited for the GPU for 5 s: there is no room for it beside vGPU "
              f"{first.name}\n" in words, words)
        first.ask("check", "right")
        return f"after {waited:.1f} s"

    return with_servers(2, run, nvml)


def suspended_stay_out(nvml):
    """Checks that a vGPU that its user has suspended stays suspended, and that others can use its memory."""
    def run(servers):
        first, second = running_and_suspended(servers)
        virgate("suspend", first.name)
        second.ask("check", "right")
        first.send("check")
        check(first.answer(1) is None, "it answered while it was suspended")
        virgate("resume", first.name)
        first.expect("right")

    return with_servers(2, run, nvml)


def leaves_when_idle(nvml):
    """Checks that the memory of an idle server leaves although there is room for it, and returns at the next
    request."""
    def find():
        return vgpu("server0")["eviction"]

    def run(servers):
        server = servers[0]
        wait_for(lambda: find()["state"] == "out", 30, "it did not leave")
        check(find()["in_host"] >= SERVER_MIB * MiB, f"only {find()['in_host'] // MiB} MiB are in the host")
        took = server.ask("check", "right")
        check(find()["in_host"] == 0, "it has not returned")
        time.sleep(0.5)
        check(find()["state"] == "running", "it left too early")
        wait_for(lambda: find()["state"] == "out", 30, "it did not leave again")
        server.ask("check", "right")
        return f"answered after {took:.2f} s"

    return with_servers(1, run, nvml, options=("--idle-suspend", "2"))


def computes_right_under_kills(nvml):
    """Suspends, resumes and kills at random while programs of three vGPUs, of which one fits, launch captured graphs:
    programs, commands and the daemon are killed. The memory of all programs that are left must be right. SEED chooses
    the random numbers, SECONDS the duration."""
    chance = random.Random(int(os.environ.get("SEED") or 1))
    counts = {"suspend": 0, "kill": 0, "cut": 0, "daemon": 0}
    commands = []

    # A program checks its memory on the host, for which it has a third of the time. The limits of the vGPUs decide that
    # only one of them fits, so less memory is enough on a GPU.
    size = SERVER_MIB if SIM else SERVER_MIB // 4 // 2 * 2  # MiB, an even number

    def replay(_):
        return [f"{PROGRAMS}/replay", str(size)]

    def begin(verb, name):
        words = [verb, "--sim"] if SIM else [verb]
        commands.append(subprocess.Popen([VIRGATE, *words, name], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL))
        return commands[-1]

    def act(servers, what):
        name = chance.choice(servers).name
        if what == "suspend":
            virgate("suspend", name, good=False)
            time.sleep(chance.random() * 0.3)
            begin("resume", name)  # it waits for room
        elif what == "kill":  # but not the first program
            at = chance.randrange(1, len(servers))
            servers[at].end()
            # The memory of a killed program counts until the driver has freed it. The vGPU has no room for it twice.
            wait_for(lambda: not vgpu(servers[at].name)["tenants"], 30, "the killed program leaves the vGPU")
            servers[at] = Server(servers[at].name, replay(0))
            servers[at].is_new = True
        elif what == "cut":
            command = begin("suspend", name)
            time.sleep(chance.random() * 0.3)
            command.kill()
            begin("resume", name)
        else:
            kill_daemon()
            wait_for(lambda: vgpu(name), 10, "a new daemon")
        time.sleep(chance.random() * 0.3)

    def run(servers):
        end = time.monotonic() + float(os.environ.get("SECONDS") or 40)
        while time.monotonic() < end:
            what = chance.choice(("suspend", "suspend", "suspend", "kill", "cut", "daemon"))
            act(servers, what)
            counts[what] += 1
        for server in servers:
            begin("resume", server.name)
        launches = []
        for server in servers:
            if getattr(server, "is_new", False):
                server.expect("ready", 120)
            server.send("check")
            line = server.answer(120) or "no answer"
            check(line.startswith("right "), f"{server.name}: {line}")
            launches.append(line.split()[1])
        check(int(launches[0]) >= 10, f"{launches[0]} launches of the first program")
        for command in commands:
            command.kill()
            command.wait()
        words = ", ".join(f"{number} × {what}" for what, number in counts.items())
        return f"{words}; {', '.join(launches)} launches"

    return with_servers(3, run, nvml, replay)


def count_resources(pid):
    """Returns the numbers of descriptors and of mappings of a process."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        return len(os.listdir(f"/proc/{pid}/fd")), len(file.readlines())


def cycles(nvml):
    """Suspends and resumes a program again and again while it launches a captured graph. Its memory must be right, and
    the cycles must leave nothing on the GPU and in the process."""
    def run(servers):
        server = servers[0]

        def cycle():
            virgate("suspend", server.name)
            virgate("resume", server.name)
            server.ask("launched", "launched")  # the graph runs again before the next cycle

        def figures():
            return nvml.memory()["used"], *count_resources(pid)

        def check_memory():
            server.send("check")
            line = server.answer(120) or "no answer"
            check(line.startswith("right "), line)
            return int(line.split()[1])

        pid = vgpu(server.name)["tenants"][0]["pid"]
        cycle()  # the first cycle loads the kernel that hashes, and pins host memory
        used, descriptors, mappings = figures()
        launches, begun = check_memory(), time.monotonic()
        for number in range(CYCLES):
            cycle()
            now = nvml.memory()["used"]
            check(abs(now - used) <= CYCLES_SLACK, f"cycle {number}: NVML says {now} bytes, and {used} before")
        took = time.monotonic() - begun
        end_used, end_descriptors, end_mappings = figures()
        check(end_descriptors <= descriptors + 2, f"{end_descriptors} descriptors, and {descriptors} before")
        check(end_mappings <= mappings + 20, f"{end_mappings} mappings, and {mappings} before")
        moves = vgpu(server.name)["tenants"][0]["eviction"]["moves"]
        check(moves >= CYCLES + 1, f"{moves} moves in {CYCLES + 1} cycles")
        launches = check_memory() - launches
        return (f"{CYCLES} cycles of {CYCLES_MIB} MiB, {took / CYCLES * 1000:.1f} ms each, {launches} launches, NVML "
                f"{end_used - used:+d} bytes, {end_mappings - mappings:+d} mappings")

    return with_servers(1, run, nvml, lambda _: [f"{PROGRAMS}/replay", str(CYCLES_MIB)])


def refuses(_):
    """Checks that a vGPU is refused if it could not run even while all others are suspended."""
    create("server0")
    try:
        words = ["create", "--sim"] if SIM else ["create"]
        done = subprocess.run([VIRGATE, *words, "large", "--memory", f"{BUDGET // MiB}M", "--evictable", "--fixed",
                               f"{FIXED // MiB}M"], capture_output=True, text=True, check=False)
        check(done.returncode != 0 and "is left" in done.stderr, f"{done.returncode}: {done.stderr}")
    finally:
        virgate("rm", "server0")


def main():
    suite = Suite()
    nvml = Nvml()
    cases = (suspends, suspends_deep, suspends_by_driver, recovers_deep, suspends_created_memory,
             suspends_expandable_segments, copies_only_changes, survives_kill, survives_daemon, waits_for_the_busy,
             suspended_stay_out, leaves_when_idle, cycles, refuses, all_answer, computes_right_under_kills)
    names = sys.argv[2:]
    unknown = set(names) - {case.__name__ for case in cases}
    if unknown:
        sys.exit(f"eviction.py: there is no case {', '.join(sorted(unknown))}")
    virgate("create", "rest", "--memory", f"{(nvml.memory()['total'] - BUDGET) // MiB}M")
    for case in cases:
        is_usual = not SIM or case != computes_right_under_kills  # meson's suite slow names it
        if case.__name__ in names or (not names and is_usual):
            suite.test(case.__name__, case, nvml)
    virgate("rm", "rest")
    suite.end()


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
