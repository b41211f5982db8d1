#!/usr/bin/env python3
"""test_journal.py BUILD [WORD...]: the journal of events and the samples, with the real daemon on the simulated GPU."""

import errno
import glob
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from node import PATIENCE_S, Skipped, run_tests, wait_for  # noqa: E402


def events(node, *words):
    return json.loads(node.virgate("events", "--json", *words))["events"]


def kinds(node, *words):
    return [event["kind"] for event in events(node, *words)]


def restart(node):
    node.virgate("shutdown")
    wait_for(lambda: not os.path.exists(f"{node.directory}/run/virgated.sock"), "the daemon's end")
    node.virgate("ps")


def files(node):
    return glob.glob(f"{node.directory}/state/*.events*")


def grow(node, name):
    """Runs a program that allocates until it is refused."""
    subprocess.run([f"{node.build}/cli/virgate", "run", "--vgpu", name, f"{node.build}/examples/grow"],
                   env=node.environment, capture_output=True, timeout=PATIENCE_S, check=False)


def test_events_tell_who_did_what(node):
    node.virgate("create", "train", "--memory", "512M", "--share", "30", "--device", "0")
    assert "larger than" in node.virgate("create", "big", "--memory", "9G", "--device", "0", code=1)
    grow(node, "train")
    node.virgate("set", "train", "--memory", "1G")
    wait_for(lambda: {"refused", "died"} <= set(kinds(node, "train")), "the events of a program")
    node.virgate("rm", "train")
    found = {event["kind"]: event for event in events(node)}
    assert set(found) == {"started", "created", "denied", "entered", "refused", "died", "changed", "removed"}, found
    assert found["created"]["bytes"] == 512 << 20 and found["created"]["user"]
    assert "share 30 %" in found["created"]["text"]
    assert found["denied"]["vgpu"] is None and "9.0 GiB" in found["denied"]["text"]
    assert found["entered"]["command"] == "grow" and found["entered"]["pid"] == found["refused"]["pid"]
    assert "cuMem" in found["refused"]["text"] and found["refused"]["bytes"] > 0
    assert found["died"]["bytes"] > 256 << 20
    assert found["changed"]["bytes"] == 1 << 30
    numbers = [event["number"] for event in events(node)]
    assert numbers == sorted(set(numbers))
    assert "denied" not in kinds(node, "train") and "removed" in kinds(node, "train")
    text = node.virgate("events", "train", "--since", "1h")
    assert "(grow)" in text and "512.0 MiB" in text
    assert "no events" in node.virgate("events", "absent")
    for wrong in ("1", "h", "1w", "-1h", "1hh", ""):
        assert "duration" in node.virgate("events", f"--since={wrong}", code=2), wrong


def test_journal_survives_restarts(node):
    node.virgate("create", "train", "--memory", "64M")
    before = events(node)
    restart(node)
    after = events(node)
    assert after[:len(before)] == before and [event["kind"] for event in after[len(before):]] == ["ended", "started"]
    pid = after[-1]["pid"]
    os.kill(pid, 9)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat", encoding="ascii").read(),
             "the daemon's end")
    wait_for(lambda: subprocess.run([f"{node.build}/cli/virgate", "ps"], env=node.environment, capture_output=True,
                                    check=False).returncode == 0, "another daemon")
    last = events(node)[-1]
    assert last["kind"] == "started" and "crashed" in last["text"], last
    assert kinds(node).count("created") == 1


def test_damaged_journal_is_read_as_far_as_possible(node):
    node.virgate("create", "first", "--memory", "64M")
    node.virgate("create", "second", "--memory", "64M")
    node.virgate("shutdown")
    path, = files(node)

    def read_lines():
        with open(path, "rb") as file:
            return file.read().splitlines(keepends=True)

    # `virgate shutdown` can return before the daemon has written its last event, that it ends.
    wait_for(lambda: len(read_lines()) == 4, "the daemon's last event")
    lines = read_lines()
    assert b"first" in lines[1], lines
    lines[1] = lines[1].replace(b"first", b"forgd")
    with open(path, "wb") as file:
        file.write(b"\0\xff garbage\n" + b"".join(lines) + b"x" * 5000 + b"\n" + lines[3] + lines[2][:40])
    found = events(node)
    assert [event["kind"] for event in found] == ["started", "created", "ended", "started"], found
    assert found[1]["vgpu"] == "second"
    log = open(f"{node.directory}/run/virgated.log", encoding="utf-8").read()
    assert "5 damaged lines left out" in log, log
    assert "virgate_journal_damaged_lines 5" in node.virgate("metrics")
    node.virgate("shutdown")
    # the line that was cut off does not damage the lines after it
    assert kinds(node)[-3:] == ["started", "ended", "started"]


def test_journal_that_cannot_be_written(node):
    node.virgate("create", "first", "--memory", "64M")
    path = wait_for(lambda: files(node), "the file")[0]
    os.unlink(path)
    os.mkdir(path)
    node.virgate("create", "second", "--memory", "64M")
    wait_for(lambda: "virgate_journal_write_errors_total 0" not in node.virgate("metrics"), "an error")
    assert kinds(node).count("created") == 2  # from memory
    log = open(f"{node.directory}/run/virgated.log", encoding="utf-8").read()
    assert "cannot be written" in log, log
    os.rmdir(path)
    node.virgate("create", "third", "--memory", "64M")
    restart(node)
    assert [event["vgpu"] for event in events(node) if event["kind"] == "created"][-2:] == ["second", "third"]


def start_on_small_disk(node):
    """Starts a daemon whose state directory is on a disk of 256 KiB. The disk is mounted only in the daemon's
    namespace. Returns the path by which this process reaches that directory."""
    if os.geteuid() != 0:
        raise Skipped("needs root")
    mount = "mount -t tmpfs -o size=256k,mode=700 none \"$VIRGATE_STATE_DIR\" && exec \"$VIRGATE_DAEMON\" --foreground"
    with open(f"{node.directory}/log", "w", encoding="utf-8") as log:
        daemon = node.start("unshare", "-m", "sh", "-c", mount, stderr=log)
    wait_for(lambda: os.path.exists(f"{node.directory}/run/virgated.sock") or daemon.poll() is not None, "the daemon")
    if daemon.poll() is not None:
        raise Skipped("cannot mount a small disk: " + open(f"{node.directory}/log", encoding="utf-8").read().strip())
    return f"/proc/{daemon.pid}/root{node.directory}/state"


def test_full_disk(node):
    disk = start_on_small_disk(node)
    node.virgate("create", "train", "--memory", "64M", "--device", "0")
    path = wait_for(lambda: glob.glob(f"{disk}/*.events"), "the file")[0]
    wait_for(lambda: b"created" in open(path, "rb").read(), "the event on the disk")
    with open(f"{disk}/filler", "wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * 4096):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
    before = os.path.getsize(path)
    # The file's last page has some free bytes even on a full disk. The events of these refusals need more.
    for _ in range(60):
        assert "larger than" in node.virgate("create", "big", "--memory", "9G", "--device", "0", code=1)
    wait_for(lambda: "virgate_journal_write_errors_total 0\n" not in node.virgate("metrics"), "an error")
    assert kinds(node).count("denied") == 60  # from memory
    # The disk is full, so a new vGPU cannot be saved. The daemon must continue to run.
    assert "cannot be saved" in node.virgate("create", "late", "--memory", "64M", code=1)
    log = open(f"{node.directory}/log", encoding="utf-8").read()
    assert log.count("No space left on device; the daemon goes on") == 1, log
    assert "virgate_journal_lost_total 0\n" in node.virgate("metrics")
    lines = open(path, "rb").read()
    assert lines.endswith(b"\n") and len(lines) < before + 4096
    os.unlink(f"{disk}/filler")
    node.virgate("create", "again", "--memory", "64M", "--device", "0")
    wait_for(lambda: b'"again"' in open(path, "rb").read(), "the journal on the disk")
    written = open(path, "rb").read()
    assert written.count(b'"denied"') == 60 and written.startswith(lines)
    wait_for(lambda: "is written again; 0 events were lost" in open(f"{node.directory}/log", encoding="utf-8").read(),
             "the line in the log")


def test_drains_and_waits(node):
    node.virgate("drain", "1")
    node.virgate("drain", "1")  # the GPU is drained already, so this makes no event
    node.virgate("drain", "1", "--undo")
    assert [(event["kind"], event["text"]) for event in events(node) if "drain" in event["kind"]] == [
        ("drained", "GPU 1"), ("undrained", "GPU 1")]
    node.virgate("create", "all", "--memory", "4G", "--device", "0")
    run = [f"{node.build}/cli/virgate", "run", "--memory", "1G", "--device", "0", "--name"]
    first = node.start(*run, "first", "--wait", "true", stderr=subprocess.DEVNULL)
    wait_for(lambda: "queued" in kinds(node, "first"), "the request in the queue")
    queued, = events(node, "first")
    assert queued["pid"] == first.pid and queued["user"] and "all" not in queued["vgpu"], queued
    assert "GPU 0" in queued["text"], queued
    second = node.start(*run, "second", "--wait", "true", stderr=subprocess.DEVNULL)
    wait_for(lambda: "queued" in kinds(node, "second"), "the second request in the queue")
    second.kill()
    wait_for(lambda: "dequeued" in kinds(node, "second"), "the end of the second request")
    assert events(node, "second")[-1]["text"].startswith("left after "), events(node, "second")
    subprocess.run([*run, "third", "--wait=1", "true"], env=node.environment, capture_output=True, timeout=PATIENCE_S,
                   check=False)
    assert kinds(node, "third") == ["queued", "dequeued"]
    assert events(node, "third")[-1]["text"].startswith("refused after ")
    node.virgate("rm", "all")
    assert first.wait(PATIENCE_S) == 0
    wait_for(lambda: "removed" in kinds(node, "first"), "the end of the first run")
    found = [event["kind"] for event in events(node, "first")]
    assert found == ["queued", "created", "dequeued", "removed"], found
    text = next(event["text"] for event in events(node, "first") if event["kind"] == "dequeued")
    assert text.startswith("admitted after "), text


def test_journal_is_bounded(node):
    node.virgate("ps")
    # Each user has a budget of events, which is refilled over time. So a slow machine needs more rounds until the
    # journal omits an event.
    for i in range(1000):
        node.virgate("create", f"v{i}", "--memory", "64M", "--device", "0")
        node.virgate("rm", f"v{i}")
        if i % 25 == 24 and "virgate_journal_omitted_total 0\n" not in node.virgate("metrics"):
            break
    else:
        raise AssertionError("no budget for the events of a user")
    assert sum(os.path.getsize(path) for path in files(node)) < 2 << 20
    node.virgate("shutdown")
    path, = files(node)
    with open(path, "ab") as file:
        file.write(b"x\n" * (3 << 20))
    node.virgate("create", "last", "--memory", "64M")
    restart(node)
    assert "created" in kinds(node, "last")
    assert os.path.getsize(path) < 2 << 20


def test_events_are_followed_over_a_restart(node):
    node.virgate("create", "first", "--memory", "64M")
    follower = node.start(f"{node.build}/cli/virgate", "events", "--follow", "--json", stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)

    def next_event():
        return json.loads(follower.stdout.readline())

    assert [next_event()["kind"], next_event()["vgpu"]] == ["started", "first"]
    node.virgate("create", "second", "--memory", "64M")
    assert next_event()["vgpu"] == "second"
    node.virgate("shutdown")
    seen = [next_event()["kind"] for _ in range(2)]
    assert seen == ["ended", "started"], seen
    node.virgate("rm", "first")
    assert next_event()["kind"] == "removed"


def as_user(node, *words):
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"{node.build}/cli/virgate",
                           *words], env=node.environment, capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False)


def test_other_users_see_what_ps_shows(node):
    if os.geteuid() != 0:
        raise Skipped("needs root")
    node.environment["VIRGATE_SYSTEM_DIR"] = f"{node.directory}/run"
    os.chmod(node.directory, 0o755)
    for name in ("run", "sim"):
        os.chmod(f"{node.directory}/{name}", 0o711)
    daemon = node.start(f"{node.build}/daemon/virgated", "--system", stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(f"{node.directory}/run/virgated.sock"), "the daemon")
    node.virgate("create", "train", "--memory", "512M", "--device", "0")
    grow(node, "train")
    wait_for(lambda: "died" in kinds(node), "the end of the program")
    done = as_user(node, "events", "--json")
    if done.returncode and "Permission" in done.stderr + done.stdout:
        raise Skipped("the build directory is not readable for other users")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["events"]
    assert {event["kind"] for event in found} == {"started", "created", "refused"}, found
    for event in found[1:]:
        assert event["vgpu"] == "train" and event["owner"]
        assert not event["pid"] and not event["command"] and not event["user"] and not event["text"], event
        assert not event["bytes"], event
    assert "virgate_vgpu_tenants{" not in as_user(node, "metrics").stdout
    assert as_user(node, "stats", "train").returncode == 0
    assert "only root" in as_user(node, "drain", "0").stderr
    denied = wait_for(lambda: next((event for event in events(node) if event["kind"] == "denied"), None), "the refusal")
    assert denied["text"].startswith("drain: ") and denied["user"] == "nobody", denied
    node.virgate("drain", "1")
    drained = json.loads(as_user(node, "events", "--json").stdout)["events"][-1]
    assert drained["kind"] == "drained" and drained["text"] == "GPU 1" and drained["user"] == "root", drained
    daemon.terminate()
    daemon.wait()


def test_stats_sum_up_the_samples(node):
    node.virgate("create", "train", "--memory", "512M", "--device", "0")
    grow(node, "train")
    stats = wait_for(lambda: (lambda read: read if read["samples"] >= 2 and "died" in read["events"] else None)(
        json.loads(node.virgate("stats", "train", "--json"))), "two samples")
    assert stats["events"]["created"] == 1 and stats["events"]["entered"] == 1
    assert stats["charged"]["least"] <= stats["charged"]["mean"] <= stats["charged"]["most"] <= 512 << 20
    assert stats["to"] - stats["from"] >= 4 and stats["in_host"] is None
    assert "samples" in node.virgate("stats", "train", "--since", "15m")
    assert "there is no vGPU absent" in node.virgate("stats", "absent", code=1)
    assert "duration" in node.virgate("stats", "train", "--since", "soon", code=2)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
