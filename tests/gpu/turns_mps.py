#!/usr/bin/env python3
"""Tests compute shares in the mode mps. On a GPU, they use NVIDIA's MPS. On the simulated GPU, the processes are
clients of a simulated server, and a script replaces the control daemon."""

import shutil

import turns
from checkpoint_harness import need_criu
from eviction import Server
from harness import (HERE, PROGRAMS, SIM, Skip, Suite, check, inside, os, subprocess, vgpu, virgate, wait_for)

if SIM:
    os.environ["VIRGATE_SIM"] += ",mps=1"
    # The script may be in a directory where the test may write, because no daemon of root runs it.
    STANDIN = f"{os.environ['VIRGATE_STATE_DIR']}/mps-control-standin"
    shutil.copy(f"{HERE}/../daemon/mps_control_standin.sh", STANDIN)
    os.environ["VIRGATE_MPS_CONTROL"] = STANDIN


class Client(turns.Tenant):
    mode = "mps"


def need_mps():
    done = subprocess.run(inside({"memory": "1G", "mode": "mps"}, ["true"]), capture_output=True, text=True,
                          check=False)
    if "has no nvidia-cuda-mps-control" in done.stderr:
        raise Skip("this machine has no MPS")
    check(done.returncode == 0, f"ended with {done.returncode}: {done.stderr}")


def shares_hold():
    need_mps()
    clients = [Client(30, name="first"), Client(70)]
    try:
        got = turns.hold(clients, (30, 70))
        shown = vgpu("first")
        check(shown["mode"] == shown["turns"]["mode"] == "mps", f"ps shows {shown}")
        return f"{got}; turns of {shown['turns']['quantum'] * 1000:.1f} ms"
    finally:
        for client in clients:
            client.end()


def programs_know_the_directory():
    need_mps()
    done = subprocess.run(inside({"memory": "1G", "mode": "mps"}, ["sh", "-c", "echo $CUDA_MPS_PIPE_DIRECTORY"]),
                          capture_output=True, text=True, check=True)
    directory = done.stdout.strip()
    check(directory.startswith(f"{os.environ['VIRGATE_RUNTIME_DIR']}/mps/"), f"it is {directory}")
    check(os.path.exists(f"{directory}/control"), f"nobody listens in {directory}")


def dump_is_refused():
    need_mps()
    need_criu()
    client = Client(50, name="client")
    try:
        done = subprocess.run([turns.VIRGATE, "dump", *(["--sim"] if SIM else []), "--vgpu", "client", "--dir",
                               f"/tmp/virgate-turns-{os.getpid()}"], capture_output=True, text=True, check=False)
        check(done.returncode == 1 and "mps" in done.stderr, f"ended with {done.returncode}: {done.stderr}")
        before = client.lines()[-1][1]
        wait_for(lambda: client.lines()[-1][1] > before, 30, "it does not go on")
        return done.stderr.strip()
    finally:
        client.end()


def memory_moves():
    """Suspends a client of MPS. Its memory must be in the host then, and right after its return."""
    need_mps()
    mib, server = 64 if SIM else 4096, None
    virgate("create", "away", "--mode", "mps", "--memory", f"{2 * mib}M" if SIM else "8G", "--evictable")
    try:
        server = Server("away", [f"{PROGRAMS}/server", str(mib), "7"])
        server.expect("ready")
        out = virgate("suspend", "away")
        check(vgpu("away")["eviction"]["in_host"] >= mib << 20, f"ps shows {vgpu('away')}")
        server.send("check")
        check(server.answer(0.5) is None, "it answered while its memory was away")
        virgate("resume", "away")
        server.expect("right")
        return out.strip().splitlines()[-1]
    finally:
        if server:
            server.end()
        virgate("rm", "away", "--force")


def one_mode_at_a_time():
    need_mps()
    client = Client(50)
    try:
        done = subprocess.run(inside({"memory": "1G"}, ["true"]), capture_output=True, text=True, check=False)
        check(done.returncode == 125 and "a GPU has one mode at a time" in done.stderr, done.stderr)
    finally:
        client.end()


def main():
    suite = Suite()
    for test in (shares_hold, programs_know_the_directory, dump_is_refused, memory_moves, one_mode_at_a_time):
        suite.test(test.__name__, test)
    suite.end()


main()
