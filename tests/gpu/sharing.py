#!/usr/bin/env python3
"""sharing.py [BUILD_OR_BUNDLE]: tests `virgate share produce`, `consume` and `selftest`: their output, peers that send
invalid data, hang or belong to another user, and either side killed or stopped at each of its steps."""

import array
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time

from harness import (MiB, PROGRAMS, SIM, VIRGATE, Nvml, Skip, Suite, check, inside, run_inside, start, start_inside,
                     stop, vgpu, virgate, wait_for, wait_idle)

STEPS = f"{PROGRAMS}/share_steps"
FLAGS = ["--sim"] if SIM else []
MEMORY = "1G" if SIM else "4G"
DIRECTORY = tempfile.mkdtemp(prefix="virgate-sharing-")
PLACE = f"{DIRECTORY}/share.sock"
STREAM = (socket.AF_UNIX, socket.SOCK_STREAM)

PRODUCER = """=== CUDA VMM Producer ===
Using CUDA device 0: .+
VMM support: yes
Memory granularity: (\\d+) bytes
Buffer size: 1048576 bytes, aligned size: \\d+ bytes
Created physical memory allocation
Reserved virtual address space at 0x[0-9a-f]+
Mapped physical memory to virtual address
Set read/write access permissions
Generated 262144 test integers
Copied test data to GPU
Exported allocation as FD: \\d+
Waiting for consumer connection...
Consumer connected
Sent FD and size metadata to consumer
Consumer verified data successfully!
Cleanup complete
"""
CONSUMER = """=== CUDA VMM Consumer ===
Using CUDA device 0: .+
Connecting to producer...
Connected to producer
Received FD: \\d+, size: \\d+ bytes
Imported allocation handle from FD
Reserved virtual address space at 0x[0-9a-f]+
Mapped imported memory to virtual address
Set read/write access permissions
Copied 1048576 bytes from GPU to host
Data verification PASSED \\(262144 integers verified\\)
Sent acknowledgment to producer
Cleanup complete
"""


def side(verb, *words, program=VIRGATE, place=PLACE, seconds=10, env=None):
    return start([program, "share", verb, *FLAGS, "--socket", place, "--timeout", str(seconds), *words], env, 60)


def end(process):
    output, errors = process.communicate()
    process.timer.cancel()
    check(not process.late, f"it never ended: {output[-300:]} {errors[-300:]}")
    return process.returncode, output, errors


def says(result, code, words):
    check(result[0] == code and words in result[2], f"ended with {result[0]}, not {code} and \"{words}\": "
          f"{result[1][-200:]} {result[2][-400:]}")


def wait_listening(place=PLACE):
    wait_for(lambda: os.path.exists(place), 20, f"a socket at {place}")


def pair():
    producer = side("produce")
    wait_listening()
    consumer = side("consume")
    got, sent = end(consumer), end(producer)
    check(re.fullmatch(CONSUMER, got[1]) and not got[2] and got[0] == 0, f"the consumer said {got}")
    check(re.fullmatch(PRODUCER, sent[1]) and not sent[2] and sent[0] == 0, f"the producer said {sent}")
    check(not os.listdir(DIRECTORY), f"left behind: {os.listdir(DIRECTORY)}")


def no_arguments():
    consumer, said = start([VIRGATE, "share", "consume", *FLAGS]), ""
    while "No producer listens on " not in said:
        line = consumer.stdout.readline()
        check(line, f"the consumer did not wait: {said}")
        said += line
    producer = start([VIRGATE, "share", "produce", *FLAGS])
    got, sent = end(consumer), end(producer)
    check(got[0] == 0 and sent[0] == 0, f"{got} {sent}")
    check("waiting for up to 30 s (" in said, said)
    check(re.fullmatch(CONSUMER, re.sub("No producer listens on .*\n", "", said) + got[1]), said + got[1])


def alone():
    says(end(side("consume", seconds=1)), 1, "connection refused: no producer listens on ")
    says(end(side("produce", seconds=1)), 1, "no consumer connected within 1 s:")


def selftest(where=None):
    words = [VIRGATE, "share", "selftest", *FLAGS]
    done = (run_inside(where, words) if where else
            subprocess.run(words, capture_output=True, text=True, check=False, timeout=60))
    check(done.returncode == 0 and "\nselftest PASSED: the producer ended with 0, the consumer with 0\n" in done.stdout,
          f"{done.stdout[-400:]} {done.stderr[-400:]}")
    check("\nconsumer: Data verification PASSED (262144 integers verified)\n" in done.stdout, done.stdout)
    check("\nproducer: Consumer verified data successfully!\n" in done.stdout, done.stdout)


def selftest_fails():
    done = subprocess.run([VIRGATE, "share", "selftest", *FLAGS, "--device", "77"], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 1 and "selftest FAILED" in done.stdout and "device 77" in done.stdout, f"{done}")


def across():
    """Runs producer and consumer in two vGPUs, then one of them outside every vGPU."""
    for one, other in ((True, True), (True, False), (False, True)):
        words = [VIRGATE, "share", "produce", *FLAGS, "--socket", PLACE]
        producer = start(inside({"memory": MEMORY}, words) if one else words)
        words[2] = "consume"
        consumer = start(inside({"memory": MEMORY}, words) if other else words)
        says(end(consumer), 0, "")
        says(end(producer), 0, "")


def asked_for(name):
    one = vgpu(name)
    return one["charged"] - one["overhead"]


def program_of(process):
    """Returns the pid of the program that `virgate run` has started, or None."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        children = file.read().split()
    return int(children[0]) if children else None


def while_mapped(one, other):
    """Returns the MiB that share-a and share-b are charged while a consumer has the memory mapped. The consumer is
    stopped after its import. `one` and `other` are the vGPUs of the producer and the consumer, or None."""
    words = ["share", "produce", *FLAGS, "--socket", PLACE]
    producer = start_inside({"vgpu": one}, [VIRGATE, *words]) if one else start([VIRGATE, *words])
    wait_listening()
    words[1] = "consume"
    imported = {"VIRGATE_SHARE_STEP": "8", "VIRGATE_SHARE_SIGNAL": str(int(signal.SIGSTOP))}
    consumer = start_inside({"vgpu": other}, [STEPS, *words], imported)
    try:
        wait_for(lambda: program_of(consumer) and is_stopped(program_of(consumer)), 20, "the import")
        return [asked_for(name) // MiB for name in ("share-a", "share-b")]
    finally:
        stop(consumer)
        stop(producer)
        for left in os.listdir(DIRECTORY):
            os.unlink(f"{DIRECTORY}/{left}")


def charged():
    """Checks that a shared allocation is charged once, to the vGPU of the process that allocated it. Memory from
    outside every vGPU must be charged to the vGPU that maps it."""
    for name in ("share-a", "share-b"):
        virgate("create", name, "--memory", MEMORY)
    try:
        for one, other, expected in (("share-a", "share-a", [2, 0]), ("share-a", "share-b", [2, 0]),
                                     (None, "share-b", [0, 2])):
            figures = while_mapped(one, other)
            check(figures == expected, f"{one} to {other}: {figures} MiB, and not {expected}")
            for name in ("share-a", "share-b"):
                wait_for(lambda name=name: asked_for(name) == 0, 10, f"the refund in {name}")
    finally:
        virgate("rm", "share-a", "share-b", good=False)


# ---- the socket's path --------------------------------------------------------------------------------


def two_producers():
    producer = side("produce")
    wait_listening()
    says(end(side("produce")), 1, "another producer uses ")
    says(end(side("consume")), 0, "")
    says(end(producer), 0, "")


def left_behind():
    producer = side("produce")
    wait_listening()
    stop(producer)
    check(os.path.exists(PLACE), "kill -9 leaves the socket there")
    says(end(side("consume", seconds=1)), 1, "its socket was left behind")
    producer = side("produce")
    consumer = end(side("consume"))
    says(consumer, 0, "")
    check("\nReplaced the socket of a producer that has ended\n" in end(producer)[1], "the socket was not replaced")
    check(not os.listdir(DIRECTORY), f"left behind: {os.listdir(DIRECTORY)}")


def taken():
    with socket.socket(*STREAM) as listener:
        listener.bind(PLACE)
        listener.listen(1)
        says(end(side("produce")), 1, "another program listens on ")
    os.unlink(PLACE)
    with open(PLACE, "w", encoding="utf-8"):
        pass
    says(end(side("produce")), 1, "is not a socket")
    says(end(side("consume", seconds=1)), 1, "connection refused")
    check(os.path.exists(PLACE), "a file was removed")
    os.unlink(PLACE)
    says(end(side("produce", place=f"{DIRECTORY}/{'x' * 120}")), 1, "the path of a socket has at most 107 characters")
    says(end(side("consume", place=f"{DIRECTORY}/{'x' * 120}")), 1, "the path of a socket has at most 107 characters")
    says(end(side("produce", place=f"{DIRECTORY}/none/share.sock")), 1, "No such file")


# ---- hostile peers --------------------------------------------------------------------------------------


def offer(version=1, count=1, total=1, mapped=2 * MiB, extra=b""):
    entry = struct.pack("<5Q16s2I", MiB, mapped, 2 * MiB, 0, 0, bytes(16), 1, 0) * count
    return struct.pack("<IHHIIII", 0x31534756, version, count, 0, total, len(entry), 0) + entry + extra


def false_producer(words, send, seconds=2):
    """Listens instead of a producer, calls `send(connection)`, and checks that the consumer fails with `words`."""
    with socket.socket(*STREAM) as listener:
        listener.bind(PLACE)
        listener.listen(1)
        listener.settimeout(20)
        consumer = side("consume", seconds=seconds)
        connection, _ = listener.accept()
        with connection:
            send(connection)
            result = end(consumer)
    os.unlink(PLACE)
    says(result, 1, words)


def with_descriptors(connection, data, descriptors):
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


def false_producers():
    with open("/dev/null", "rb") as null, tempfile.TemporaryFile() as file:
        false_producer("this is no offer of memory", lambda one: one.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"))
        false_producer("written in version 2", lambda one: one.sendall(offer(version=2)))
        false_producer("0 descriptors came with 1 ranges", lambda one: one.sendall(offer()))
        false_producer("3 descriptors came with 1 ranges", lambda one: with_descriptors(one, offer(), [0, 1, 2]))
        false_producer("is a device (/dev/null)", lambda one: with_descriptors(one, offer(), [null.fileno()]))
        false_producer("is a file (", lambda one: with_descriptors(one, offer(), [file.fileno()]))
        false_producer("is a socket (", lambda one: with_descriptors(one, offer(), [one.fileno()]))
        false_producer("no multiple of the granularity",
                       lambda one: with_descriptors(one, offer(mapped=2 * MiB + 1), [0]))
        false_producer("cannot be what 67108864 mapped", lambda one: with_descriptors(one, offer(mapped=64 * MiB), [0]))
        false_producer("closed the connection after 40 of ", lambda one: one.sendall(offer()[:40]) or one.shutdown(1))
        false_producer("closed the connection before", lambda one: one.shutdown(1))
        false_producer("stopped after 40 of ", lambda one: one.sendall(offer()[:40]), 1)
        false_producer("did not send its message within 1000 ms", lambda one: None, 1)


def a_queue():
    """Connects to a listener with a full backlog, which accepts no connection."""
    with socket.socket(*STREAM) as listener:
        listener.bind(PLACE)
        listener.listen(0)
        waiting = [socket.socket(*STREAM) for _ in range(8)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(PLACE)
        says(end(side("consume", seconds=1)), 1, "does not accept connections")
        for one in waiting:
            one.close()
    os.unlink(PLACE)


def false_consumer(words, act, seconds=5):
    producer = side("produce", seconds=seconds)
    wait_listening()
    with socket.socket(*STREAM) as consumer:
        wait_for(lambda: consumer.connect_ex(PLACE) == 0, 10, "a connection")
        act(consumer)
        says(end(producer), 1, words)


def false_consumers():
    size = 24 + 64
    false_consumer("invalid answer of the consumer: 0x20646f67", lambda one: one.recv(size) and one.sendall(b"god "))
    false_consumer("the consumer read data that differ",
                   lambda one: one.recv(size) and one.sendall(struct.pack("<I", 0x31415357)))
    false_consumer("after 2 of 4 bytes", lambda one: one.recv(size) and one.sendall(b"ok") or one.shutdown(1))
    false_consumer("came with an answer that has none",
                   lambda one: one.recv(size) and with_descriptors(one, b"VSA1", [0]))
    false_consumer("the consumer did not answer", lambda one: one.recv(size) and one.shutdown(1))
    false_consumer("did not send its message within 1000 ms", lambda one: one.recv(size), 1)
    false_consumer("closed the connection before it sent or took the offer", lambda one: one.close())


def strangers():
    if os.geteuid() != 0:
        raise Skip("only root can be two users")
    os.chmod(DIRECTORY, 0o777)
    # This process of user 1001 listens. The consumer sees the credentials that the process had at its listen().
    child = subprocess.Popen(["python3", "-c", "import os,socket,sys; os.setgid(1001); os.setuid(1001); "
                              f"s=socket.socket(socket.AF_UNIX); s.bind('{PLACE}'); s.listen(1); c=s.accept(); "
                              "sys.stdin.read()"], stdin=subprocess.PIPE)
    wait_listening()
    result = end(side("consume", seconds=5))
    child.communicate()
    os.unlink(PLACE)
    says(result, 1, "of user 1001, and this process is user 0's")
    producer = side("produce", seconds=3)
    wait_listening()
    os.chmod(PLACE, 0o777)
    subprocess.run(["python3", "-c", "import os,socket; os.setgid(1001); os.setuid(1001); "
                    f"s=socket.socket(socket.AF_UNIX); s.connect('{PLACE}'); s.recv(1)"], check=False, timeout=10)
    says(end(side("consume")), 0, "")  # the producer still accepts its consumer
    result = end(producer)
    says(result, 0, "refused a connection: the other end is process ")
    os.chmod(DIRECTORY, 0o700)


# ---- killed, and stopped, at each step -------------------------------------------------------------------


def at_step(verb, step, how, seconds):
    """Sends the signal `how` to one side at step number `step`. Returns the name of the step (None after the last one),
    and how both sides ended."""
    hit = {"VIRGATE_SHARE_STEP": str(step), "VIRGATE_SHARE_SIGNAL": str(int(how))}
    sides = {name: side(name, program=STEPS, seconds=seconds, env=hit if name == verb else None)
             for name in ("produce", "consume")}
    other = "consume" if verb == "produce" else "produce"
    survivor = end(sides[other])
    if how == signal.SIGSTOP and sides[verb].poll() is None:
        # This side may have fewer steps than `step`. Then it is not stopped, and ends a little later than the other.
        wait_for(lambda: sides[verb].poll() is not None or is_stopped(sides[verb].pid), 20,
                 f"the end or the stop of {verb}")
        if sides[verb].poll() is None:
            os.kill(sides[verb].pid, signal.SIGKILL)
    victim = end(sides[verb])
    where = re.search(r"step \d+: (.*)", victim[2])
    return where.group(1) if where else None, victim, survivor


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


def each_step(verb, how, nvml, seconds, steps=range(1, 40)):
    wait_idle(nvml)
    before, seen = nvml.memory()["used"], []
    for step in steps:
        where, victim, survivor = at_step(verb, step, how, seconds)
        if where is None:
            check(victim[0] == 0 and survivor[0] == 0, f"no signal at step {step}, but a failure: {victim} {survivor}")
            break
        seen.append(where)
        check(survivor[0] in (0, 1), f"{where}: the other side ended with {survivor}")
        check(survivor[0] == 0 or "virgate: " in survivor[2], f"{where}: the other side says nothing: {survivor}")
        wait_for(lambda: nvml.memory()["used"] <= before, 10, f"the memory back after {where}")
    else:
        check(len(seen) == len(steps), "there is no last step")
    says(end_of_pair(), 0, "")
    check(not os.listdir(DIRECTORY), f"left behind: {os.listdir(DIRECTORY)}")
    return f"{len(seen)} steps: {', '.join(seen)}"


def end_of_pair():
    producer = side("produce")
    consumer = end(side("consume"))
    says(end(producer), 0, "")
    return consumer


def main():
    suite, nvml = Suite(), Nvml()
    suite.test("a pair says what it does", pair)
    suite.test("no arguments, the consumer first", no_arguments)
    suite.test("one without the other", alone)
    suite.test("the selftest", selftest)
    suite.test("the selftest in a vGPU", selftest, {"memory": MEMORY})
    suite.test("a selftest that fails", selftest_fails)
    suite.test("across vGPUs", across)
    suite.test("what is charged", charged)
    suite.test("a second producer", two_producers)
    suite.test("a socket that was left behind", left_behind)
    suite.test("a place that is taken", taken)
    suite.test("producers that lie, hang or leave", false_producers)
    suite.test("consumers that lie, hang or leave", false_consumers)
    suite.test("a queue that does not move", a_queue)
    suite.test("other users", strangers)
    for verb in ("produce", "consume"):
        suite.test(f"kill -9 of {verb} at each step", each_step, verb, signal.SIGKILL, nvml, 2 if SIM else 5)
        # On a real GPU, only two steps are tested, since the other side waits for its whole timeout at each step.
        suite.test(f"{verb} hangs", each_step, verb, signal.SIGSTOP, nvml, 1 if SIM else 4,
                   range(1, 40) if SIM else range(5, 7))
    os.rmdir(DIRECTORY)
    suite.end()


if __name__ == "__main__":
    main()
