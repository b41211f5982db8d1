#!/usr/bin/env python3
"""broker.py [BUILD_OR_BUNDLE]: tests `virgate share publish`, `open`, `list` and `revoke` between programs: contents,
seals, which vGPU is charged until when, each process killed, the steps of a revocation, and thousands of cycles without
growth."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile

from harness import (MiB, PROGRAMS, SIM, VIRGATE, Nvml, Suite, check, inside, start, stop, vgpu, virgate, wait_for,
                     wait_idle)

FLAGS = ["--sim"] if SIM else []
MEMORY = "1G" if SIM else "4G"
SIZE = 64 * MiB if SIM else 1024 * MiB
DIRECTORY = tempfile.mkdtemp(prefix="virgate-broker-")
STARTED = []
atexit.register(shutil.rmtree, DIRECTORY, True)


def said(process, words):
    """Reads the process's next line, checks that it contains these words, and returns it."""
    line = process.stdout.readline()
    check(words in line, f"said {line!r}, not {words!r}: {process.stderr.read() if not line else ''}")
    return line


def begin(command, where):
    process = start(inside(where, command) if where else command + FLAGS, limit=60)
    STARTED.append(process)
    return process


def stop_all():
    for process in STARTED:
        stop(process)
    STARTED.clear()


def publisher(*words, name="w", where=None):
    command = [VIRGATE, "share", "publish", name, *words]
    process = begin(command, where)
    said(process, f"{name} is published")
    return process


def reader(*words, name="w", where=None):
    command = [VIRGATE, "share", "open", name, "--hold", *words]
    process = begin(command, where)
    said(process, f"{name} is open")
    return process


def rows(name="w"):
    listed = subprocess.run([VIRGATE, "share", "list", "--json", *FLAGS], capture_output=True, text=True, check=True,
                            timeout=30)
    return [row for row in json.loads(listed.stdout)["publications"] if row["name"] == name]


def gone(name="w"):
    wait_for(lambda: not rows(name), 5, f"publication {name} goes")


def charged(name):
    return vgpu(name)["charged"]


def tenant(name):
    return vgpu(name)["tenants"][0]["pid"]


def revoke(*words, name="w", good=True):
    done = subprocess.run([VIRGATE, "share", "revoke", name, "--json", *words, *FLAGS], capture_output=True, text=True,
                          check=False, timeout=60)
    check((done.returncode == 0) == good, f"revoke ended with {done.returncode}: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)


def the_contents():
    path, copy = f"{DIRECTORY}/contents", f"{DIRECTORY}/copy"
    contents = os.urandom(3 * MiB + 17)
    with open(path, "wb") as file:
        file.write(contents)
    one = publisher("--from", path)
    subprocess.run([VIRGATE, "share", "open", "w", "--to", copy, *FLAGS], check=True, timeout=60, capture_output=True)
    with open(copy, "rb") as file:
        check(file.read() == contents, "the reader read something else")
    one.send_signal(signal.SIGINT)
    check(one.wait(30) == 0, f"the publisher ended with {one.returncode}")
    stop(one)
    gone()


def key(name):
    path = f"{DIRECTORY}/{name}"
    if not os.path.exists(path):
        subprocess.run([VIRGATE, "key", "create", path], check=True, timeout=30, capture_output=True)
    return path


def ends(code, words, *command, env=None):
    """Runs a command to its end. Checks its exit status, and that its output contains the words. Returns the output."""
    done = subprocess.run([VIRGATE, "share", *command, *FLAGS], capture_output=True, text=True, check=False, timeout=60,
                          env=dict(os.environ, **(env or {})))
    output = done.stdout + done.stderr
    check(done.returncode == code and words in output, f"{command} ended with {done.returncode}: {output}")
    return output


def seals(where):
    """Tests seals. The publisher runs in a vGPU, or outside if `where` is None. The readers run outside."""
    path, copy, good, other = f"{DIRECTORY}/sealed", f"{DIRECTORY}/verified", key("key"), key("other")
    contents = os.urandom(5 * MiB + 3)
    with open(path, "wb") as file:
        file.write(contents)
    one = publisher("--from", path, "--key", good, where=where)
    try:
        ends(0, "w: contents verified, 5", "open", "w", "--verify", "--key", good, "--to", copy)
        with open(copy, "rb") as file:
            check(file.read() == contents, "the reader read something else")
        os.remove(copy)
        ends(0, "w: contents verified", "open", "w", "--verify", env={"VIRGATE_KEY": good})
        check("verified" not in ends(0, "w is open", "open", "w"), "it was verified without being asked to")
        ends(1, "the seal is not genuine", "open", "w", "--verify", "--key", other, "--to", copy)
        ends(1, "there is no key file /none", "open", "w", "--key", "/none")
        check(not os.path.exists(copy), "contents were read out that are not verified")
    finally:
        stop(one)
        gone()


def no_seal():
    one = publisher("--size", "1M")
    try:
        ends(1, "range 0 has no seal", "open", "w", "--verify", "--key", key("key"))
    finally:
        stop(one)
        gone()
    settings = {"XDG_CONFIG_HOME": DIRECTORY, "VIRGATE_KEY": ""}  # no key
    ends(2, "the key that it was sealed with is missing", "open", "w", "--verify", env=settings)
    ends(2, "the key to seal it with is missing", "publish", "w", "--size", "1M", "--seal", env=settings)
    ends(2, "--writable and a seal exclude", "publish", "w", "--size", "1M", "--writable", "--key", key("key"))
    ends(2, "has a dot", "publish", "w.1", "--size", "1M", "--key", key("key"))
    ends(2, "give one of them", "open", "w", "--key", key("key"), "--key-ring", "k")


def memory_goes_with_the_last():
    """Kills the publisher, then the reader, and checks the memory used on the whole device."""
    nvml = Nvml()
    wait_idle(nvml)
    before = nvml.memory()["used"]
    one = publisher("--size", str(SIZE))
    alone = nvml.memory()["used"]
    other = reader()
    both = nvml.memory()["used"]
    check(both - alone < SIZE, f"a reader takes {(both - alone) // MiB} MiB: it was copied")
    stop(one)
    wait_for(lambda: [row["state"] for row in rows()] == ["orphaned"], 5, "it is orphaned")
    wait_for(lambda: nvml.memory()["used"] < both, 10, "the publisher's context goes")
    check(nvml.memory()["used"] >= before + SIZE, "the reader's memory went with the publisher")
    stop(other)
    gone()
    wait_for(lambda: nvml.memory()["used"] <= before + 2 * MiB, 10, "the memory goes with the reader")


def charged_until_the_last(inside_too):
    virgate("create", "a", "--memory", MEMORY)
    try:
        one = publisher("--size", str(SIZE), where={"vgpu": "a"})
        check(rows()[0]["vgpu"] == "a", f"{rows()[0]['vgpu']} is charged")
        check(charged("a") >= SIZE, "it is not charged")
        pid = tenant("a")
        other = reader(where={"memory": MEMORY} if inside_too else None)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: [row["state"] for row in rows()] == ["orphaned"], 5, "it is orphaned")
        stop(one)
        wait_for(lambda: charged("a") < SIZE + 64 * MiB, 15, "the publisher's context is refunded")
        check(charged("a") >= SIZE, f"{charged('a') // MiB} MiB are charged while a reader has it")
        stop(other)
        wait_for(lambda: charged("a") == 0, 15, "nothing is charged after the last reader")
    finally:
        stop_all()
        gone()
        wait_for(lambda: not vgpu("a")["tenants"], 15, "the vGPU is empty")
        virgate("rm", "a")


def the_daemon_is_killed():
    one = publisher("--size", str(16 * MiB))
    other = reader()
    with open(f"{os.environ['VIRGATE_RUNTIME_DIR']}/lock", encoding="ascii") as lock:
        os.kill(int(lock.read()), signal.SIGKILL)
    # The publisher starts the next daemon, and both register again.
    wait_for(lambda: [(row["state"], row["generation"], row["leases"]) for row in rows()] == [("open", 1, 1)], 10,
             f"both come back: {rows()}")
    report = revoke("--deadline", "20")
    check((report["step"], report["holders"], report["left"]) == ("asked", 1, []), f"{report}")
    check(other.wait(10) == 0 and one.wait(10) == 0, "they did not end when it was asked back")
    stop(one)
    stop(other)
    gone()


def stubborn_readers_are_ended():
    one = publisher("--size", str(16 * MiB))
    other = reader()
    other.send_signal(signal.SIGSTOP)
    report = revoke("--deadline", "0.2", good=False)
    check(report["step"] == "withdrawn" and [left["pid"] for left in report["left"]] == [other.pid], f"{report}")
    report = revoke("--deadline", "0.2", "--kill")
    check(report["step"] == "killed" and report["left"] == [], f"{report}")
    check(other.wait(10) == -signal.SIGKILL, "it was not killed")
    stop(one)
    stop(other)
    gone()


def cycles():
    program = f"{os.path.dirname(PROGRAMS)}/share/test-share-broker"
    count = "300" if SIM else "10000"
    root = os.environ.get("VIRGATE_ROOT", "")
    libraries = {"VIRGATE_LIBDIR": root} if SIM else {"LD_LIBRARY_PATH": f"{root}/lib:{root}/src"}
    process = start([program, "repeated_use_leaks_nothing"], {"VIRGATE_CYCLES": count, **libraries}, 150)
    output, errors = process.communicate()
    process.timer.cancel()
    check(process.returncode == 0, f"{output[-300:]} {errors[-300:]}")
    return f"{count} of them"


def test(name, function, *arguments):
    """Runs one test, and stops the processes that it started, also if it fails."""
    suite.test(name, function, *arguments)
    stop_all()


suite = Suite()
test("what a file has is read by another program", the_contents)
test("a seal is verified, or refused", seals, None)
test("the same with a publisher in a vGPU", seals, {"memory": MEMORY})
test("no seal, and mistakes with keys", no_seal)
test("memory goes with the last holder", memory_goes_with_the_last)
test("charged until the last reader has gone", charged_until_the_last, False)
test("the same with a reader in another vGPU", charged_until_the_last, True)
test("a daemon that is killed", the_daemon_is_killed)
test("readers that do not let go", stubborn_readers_are_ended)
test("cycles leave nothing", cycles)
suite.end()
