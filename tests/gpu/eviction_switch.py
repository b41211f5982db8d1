#!/usr/bin/env python3
"""Tests two evictable vGPUs that do not fit on the GPU together. The memory of one returns while the memory of the
other leaves. Meanwhile the test kills processes and the daemon."""

import os
import signal
import sys
import time

if os.environ.get("VIRGATE_SIM"):  # make copies slow, so that a switch takes some time
    os.environ["VIRGATE_SIM"] += ",slice=2ms"
    os.environ["VIRGATE_SIM_COST"] = "dtoh=400M,htod=400M"

from eviction import BUDGET, Server, running_and_suspended, with_servers
from harness import MiB, SIM, Nvml, Suite, check, vgpu, virgate, wait_for


def states(servers):
    found = []
    for server in servers:
        tenants = (vgpu(server.name) or {"tenants": []})["tenants"]
        found.append(tenants[0]["eviction"]["state"] if tenants and tenants[0]["eviction"] else "none")
    return found


def begin_switch(servers):
    """Starts a switch. Returns the server whose memory leaves, and the server whose memory returns and that has not yet
    answered `check`."""
    value = 10
    end = time.monotonic() + 90
    while time.monotonic() < end:
        first, second = running_and_suspended(servers)
        first.ask(f"write {value}", "written")  # unchanged memory would not be copied
        value += 1
        second.send("check")
        while True:
            if states((first, second)) == ["leaving", "returning"]:
                return first, second
            if second.answer(0) is not None:
                break
    check(False, "never did one return while the other one left")
    return None


def overlaps(nvml):
    def run(servers):
        first, second = begin_switch(servers)
        second.expect("right")
        began = time.monotonic()
        first.ask("check", "right")
        return f"answer after {time.monotonic() - began:.2f} s"

    return with_servers(2, run, nvml)


def survives_kill_of_leaving(nvml):
    def run(servers):
        first, second = begin_switch(servers)
        os.killpg(first.process.pid, signal.SIGKILL)
        second.expect("right", 20)

    return with_servers(2, run, nvml)


def survives_kill_of_returning(nvml):
    def run(servers):
        first, second = begin_switch(servers)
        os.killpg(second.process.pid, signal.SIGKILL)
        first.ask("check", "right", 30)

    return with_servers(2, run, nvml)


def survives_daemon(nvml):
    def run(servers):
        first, second = begin_switch(servers)
        with open(f"{os.environ['VIRGATE_RUNTIME_DIR']}/lock", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        second.expect("right", 30)
        wait_for(lambda: vgpu(second.name), 10, "a new daemon")
        first.ask("check", "right", 30)
        second.ask("check", "right", 30)

    return with_servers(2, run, nvml)


def turns_back(nvml):
    """Suspends the server whose memory is about to return. The memory of the other server must return instead."""
    def run(servers):
        first, second = begin_switch(servers)
        virgate("suspend", second.name)
        first.ask("check", "right", 30)
        virgate("resume", second.name)
        second.expect("right", 30)

    return with_servers(2, run, nvml)


def main():
    suite = Suite()
    nvml = Nvml()
    virgate("create", "rest", "--memory", f"{(nvml.memory()['total'] - BUDGET) // MiB}M")
    for function in (overlaps, survives_kill_of_leaving, survives_kill_of_returning, survives_daemon, turns_back):
        suite.test(function.__name__, function, nvml)
    virgate("rm", "rest")
    suite.end()


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
