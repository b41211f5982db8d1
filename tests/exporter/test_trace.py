#!/usr/bin/env python3
"""test_trace.py BUILD [WORD...]: tests `virgate trace` with the real daemon on the simulated GPU. Checks every trace
file against the rules of the trace event format."""

import collections
import json
import os
import resource
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from node import PATIENCE_S, Skipped, run_tests, wait_for  # noqa: E402

MIB = 1 << 20


class Trace:
    """A trace file: checks each event, and finds events by the names of their tracks."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
        assert set(whole) == {"traceEvents", "displayTimeUnit", "otherData"} and whole["displayTimeUnit"] == "ms"
        self.about = whole["otherData"]
        self.events = whole["traceEvents"]
        self.processes, self.threads = {}, {}
        for event in self.events:
            self.check_event(event)
        for event in self.events:
            self.check_track(event)
        self.check_nesting()

    def check_event(self, event):
        """Checks the fields that the format requires of each kind of event, and their types."""
        required = {"M": {"name", "pid", "args"}, "X": {"name", "pid", "tid", "ts", "dur", "args"},
                    "C": {"name", "pid", "ts", "args"}, "i": {"name", "pid", "tid", "ts", "s", "args"}}
        fields = set(event) - {"ph"}
        optional = {"tid"} if event.get("name", "").startswith("thread_") else set()
        assert required[event["ph"]] <= fields <= required[event["ph"]] | optional, event
        for key in ("pid", "tid", "ts", "dur"):
            assert isinstance(event.get(key, 0), int) and event.get(key, 0) >= 0, event
        assert isinstance(event.get("args", {}), dict) and event.get("name", "x"), event
        if event["ph"] == "C":
            assert event["args"] and all(isinstance(value, float) for value in event["args"].values()), event
        if event["ph"] == "i":
            assert event["s"] in "gpt", event
        if event["ph"] != "M":
            return
        if event["name"] == "process_name":
            assert event["pid"] not in self.processes, event
            self.processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            assert event["tid"] not in self.threads, event
            self.threads[event["tid"]] = (event["pid"], event["args"]["name"])
        else:
            assert event["name"] in ("process_sort_index", "thread_sort_index"), event
            assert isinstance(event["args"]["sort_index"], int)

    def check_track(self, event):
        """Checks that the event's process and thread have names, and that the thread belongs to the process."""
        if event["ph"] == "M" or event.get("s") == "g":
            return
        assert event["pid"] in self.processes, event
        # Perfetto assigns a counter to the thread whose number is that of the process, so that thread must belong to
        # it.
        assert self.threads.get(event["pid"], (event["pid"],))[0] == event["pid"], event
        if "tid" in event:
            assert self.threads[event["tid"]][0] == event["pid"], event

    def check_nesting(self):
        """Checks that two slices of a thread are either nested or do not overlap, and are in the order in which a
        reader processes them."""
        tracks = collections.defaultdict(list)
        for number, event in enumerate(self.events):
            if event["ph"] == "X":
                tracks[event["tid"]].append((event["ts"], number, event["ts"] + event["dur"]))
        for tid, slices in tracks.items():
            open_ends = []
            for at, number, end in sorted(slices):
                while open_ends and open_ends[-1] <= at:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1], (tid, self.events[number])
                open_ends.append(end)

    def slices(self, process, thread):
        return [event for event in self.events if event["ph"] == "X" and
                self.processes[event["pid"]].startswith(process) and self.threads[event["tid"]][1] == thread]

    def counters(self, process, ending):
        return [next(iter(event["args"].values())) for event in self.events if event["ph"] == "C" and
                self.processes[event["pid"]].startswith(process) and event["name"].endswith(ending)]

    def instants(self, process):
        return {event["name"]: event for event in self.events if event["ph"] == "i" and event["s"] == "t" and
                self.processes[event["pid"]].startswith(process)}

    def programs(self, process):
        """Returns the figures of each program of a vGPU. A program is a slice that has the same name as its track."""
        return [event["args"] for event in self.events if event["ph"] == "X" and
                self.processes[event["pid"]].startswith(process) and
                self.threads[event["tid"]][1] == event["name"]]


def prepare(node, **costs):
    """Sets up the simulated GPUs so that processes share the time of each GPU."""
    node.environment["VIRGATE_SIM"] += ",slice=2150us,sms=2"
    node.environment["VIRGATE_SIM_COST"] = ",".join(f"{key}={value}" for key, value in costs.items()) or "device=4G"


def begin(node, vgpu, rate=1000):
    process = node.start(f"{node.build}/cli/virgate", "run", "--vgpu", vgpu, f"{node.build}/tests/exporter/trace_load",
                         str(rate), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = process.stdout.readline()
    assert line == "ready\n", process.stderr.read()
    return process


def finish(process):
    """Ends a program that begin() has started. Returns how many fills and copies it made."""
    process.stdin.close()
    return tuple(map(int, process.stdout.readline().split()))


def record(node, *words, code=0):
    path = f"{node.directory}/trace.json"
    said = node.virgate("trace", "--output", path, *words, code=code)
    return Trace(path), said


def turns(node, vgpu):
    listed = json.loads(node.virgate("ps", "--json"))["vgpus"]
    return next(one["turns"] for one in listed if one["name"] == vgpu)


def gpu_ms(trace, vgpu):
    return sum(event["args"]["GPU time ms"] for event in trace.slices(f"vGPU {vgpu} ", "turns"))


def test_two_vgpus_take_turns(node):
    # with this speed, each program alone would keep the GPU busy for more than half of the time
    prepare(node, device="512M")
    for vgpu, share in (("small", "25"), ("large", "75")):
        node.virgate("create", vgpu, "--memory", "512M", "--share", share, "--device", "0")
    programs = [begin(node, "small"), begin(node, "large")]
    wait_for(lambda: all(turns(node, vgpu)["waited"] > .2 for vgpu in ("small", "large")), "turns")
    before = {vgpu: turns(node, vgpu)["gpu_time"] for vgpu in ("small", "large")}
    trace, said = record(node, "--seconds", "3")
    after = {vgpu: turns(node, vgpu)["gpu_time"] for vgpu in ("small", "large")}
    assert "2 vGPUs, 2 programs" in said and not trace.about["turns_lost"] and not trace.about["daemon_ended"]
    assert trace.about["seconds"] >= 3
    whole = trace.slices("GPU 0", "who has the GPU")
    assert {event["name"].split(":")[0] for event in whole} == {"small", "large"}
    assert sum(event["args"]["phase"] == "holds" for event in whole) > 10
    whole.sort(key=lambda event: event["ts"])
    for one, other in zip(whole, whole[1:]):
        assert one["ts"] + one["dur"] <= other["ts"], (one, other)
    for vgpu in ("small", "large"):
        used = (after[vgpu] - before[vgpu]) * 1e3
        # The figures `used` were read a little before and after the trace, so they are somewhat larger.
        assert .5 * used <= gpu_ms(trace, vgpu) <= used + 1, (vgpu, gpu_ms(trace, vgpu), used)
        names = {event["name"] for event in trace.slices(f"vGPU {vgpu} ", "turns")}
        assert {"has the GPU", "waits for a turn"} <= names, names
        assert max(trace.counters(f"vGPU {vgpu} ", ": launches")) > 0
        assert max(trace.counters(f"vGPU {vgpu} ", "copied to the GPU")) > 0
        assert max(trace.counters(f"vGPU {vgpu} ", "copied from the GPU")) > 0
        assert max(trace.counters(f"vGPU {vgpu} ", "memory charged")) >= 64
    part = gpu_ms(trace, "large") / (gpu_ms(trace, "large") + gpu_ms(trace, "small"))
    used = {vgpu: after[vgpu] - before[vgpu] for vgpu in after}
    assert abs(part - used["large"] / sum(used.values())) < .15, (part, used)
    for program in programs:
        finish(program)


def test_a_job_has_its_turns_on_all_its_gpus(node):
    prepare(node, device="512M")
    node.virgate("create", "small", "--memory", "512M", "--share", "50", "--device", "0")
    programs = [begin(node, "small")]
    programs.append(node.start(f"{node.build}/cli/virgate", "run", "--gpus", "2", "--memory", "512M",
                               "--share", "50", "--name", "job", f"{node.build}/tests/exporter/trace_load", "1000",
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    assert programs[-1].stdout.readline() == "ready\n"
    wait_for(lambda: all(turns(node, vgpu)["waited"] > .2 for vgpu in ("small", "job.0")), "turns")
    trace, _ = record(node, "--seconds", "3")
    shown = {event["name"].split(":")[0] for event in trace.slices("GPU 1", "who has the GPU")}
    places = {one["device"]: one["name"] for one in json.loads(node.virgate("ps", "--json"))["vgpus"]
              if one["name"] != "small"}
    assert set(places) == {0, 1} and shown == {places[1]}, (places, shown)
    for thread, vgpu in (("GPU 0", places[0]), ("GPU 1", places[1])):
        held = [event for event in trace.slices(thread, "who has the GPU") if event["name"] == vgpu]
        assert sum(event["args"]["phase"] == "holds" for event in held) > 5, held
    for program in programs:
        finish(program)


def start_trace(node, seconds, path=None):
    return node.start(f"{node.build}/cli/virgate", "trace", "--seconds", str(seconds), "-o",
                      path or f"{node.directory}/trace.json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def drafts(node):
    """Returns the names of traces that are being recorded and already contain events. They are temporary files."""
    names = [name for name in os.listdir(node.directory) if name.startswith("trace.json.")]
    return [name for name in names if os.path.getsize(f"{node.directory}/{name}")]


def test_counts_agree_with_the_program(node):
    """Tests a vGPU without a share, whose launches are not delayed. They must still be counted while a trace is
    recorded."""
    prepare(node)
    node.virgate("create", "free", "--memory", "512M")
    program = begin(node, "free")
    trace = start_trace(node, 60)
    wait_for(lambda: drafts(node), "the recording")
    # The counter of launches can be up to one batch of launches late. That matters less in a longer recording.
    time.sleep(3)
    trace.send_signal(signal.SIGINT)
    said, _ = trace.communicate(timeout=PATIENCE_S)
    assert "1 vGPU, 1 program, 0 turns" in said, said
    fills, copies = finish(program)
    traced = Trace(f"{node.directory}/trace.json")
    assert traced.about["seconds"] < 59 and not drafts(node)
    counted = traced.programs("vGPU free ")[0]
    assert 64 <= counted["launches"] <= fills + 64, (counted, fills)
    assert counted["GPU time ms, estimated"] > 0
    assert not traced.slices("vGPU free ", "turns")
    assert max(traced.counters("vGPU free ", "copied to the GPU")) > 0 and copies > 0
    assert not traced.counters("vGPU free ", "copied within the GPU")


def test_suspensions_and_refusals_appear(node):
    prepare(node)
    node.virgate("create", "moves", "--memory", "512M", "--share", "50", "--evictable", "--device", "0")
    node.virgate("create", "tight", "--memory", "128M", "--device", "0")
    node.virgate("create", "other", "--memory", "128M", "--device", "1")
    program = begin(node, "moves")
    trace = start_trace(node, 60)
    wait_for(lambda: drafts(node), "the recording")
    node.virgate("suspend", "moves")
    subprocess.run([f"{node.build}/cli/virgate", "run", "--vgpu", "tight", f"{node.build}/examples/grow"],
                   env=node.environment, capture_output=True, timeout=PATIENCE_S, check=False)
    wait_for(lambda: "refused" in node.virgate("events", "tight"), "the refusal")
    # A trace reads how much memory is in the host every 50 ms, or less often on a busy machine. So wait longer.
    time.sleep(1)
    node.virgate("resume", "moves")
    trace.send_signal(signal.SIGTERM)
    said, _ = trace.communicate(timeout=PATIENCE_S)
    # a program that runs for less than 50 ms may be missing in the trace
    assert trace.returncode == 0 and "3 vGPUs, " in said, said
    traced = Trace(f"{node.directory}/trace.json")
    happened = traced.instants("vGPU moves ")
    assert {"suspended", "resumed"} <= set(happened) and happened["suspended"]["ts"] < happened["resumed"]["ts"]
    refused = traced.instants("vGPU tight ")["refused"]["args"]
    assert "cuMem" in refused["text"] and refused["size"] == "64.0 MiB" and refused["process"], refused
    assert traced.counters("vGPU tight ", "allocations refused") == [0, 1]
    away = [event for event in traced.events if event["ph"] == "X" and event["name"] == "memory in the host"]
    assert away and all(traced.processes[event["pid"]].startswith("vGPU moves") for event in away)
    assert max(traced.counters("vGPU moves ", "memory in the host")) >= 64
    assert len([name for name in traced.processes.values() if name.startswith("GPU ")]) == 2
    trace, said = record(node, "--seconds", "1", "--device", "1")
    assert "1 vGPU," in said and list(trace.processes.values())[1].startswith("vGPU other"), trace.processes
    finish(program)


def test_a_program_that_is_suspended_from_the_beginning(node):
    prepare(node)
    node.virgate("create", "moves", "--memory", "512M", "--share", "50", "--evictable", "--device", "0")
    program = begin(node, "moves")
    node.virgate("suspend", "moves")
    traced, _ = record(node, "--seconds", "1")
    outer, = [event for event in traced.events if event.get("name", "").startswith("trace_load") and event["ph"] == "X"]
    inner, = [event for event in traced.events if event.get("name") == "memory in the host" and event["ph"] == "X"]
    assert inner["tid"] == outer["tid"] and inner["ts"] > outer["ts"] and inner["dur"] > 0, (outer, inner)
    node.virgate("resume", "moves")
    finish(program)


def test_a_daemon_that_ends_leaves_a_part(node):
    node.virgate("create", "train", "--memory", "64M")
    trace = start_trace(node, 60)
    wait_for(lambda: drafts(node), "the recording")
    node.virgate("shutdown")
    said = trace.communicate(timeout=PATIENCE_S)
    assert trace.returncode == 1 and "the daemon ended after" in said[1] and "1 vGPU" in said[0], said
    assert Trace(f"{node.directory}/trace.json").about["daemon_ended"]
    # No daemon runs now, and `virgate trace` must not start one.
    assert "daemon" in node.virgate("trace", "-o", f"{node.directory}/other.json", code=1)
    assert not os.path.exists(f"{node.directory}/other.json")
    assert not os.path.exists(f"{node.directory}/run/virgated.sock")


def test_bad_input_is_refused(node):
    node.virgate("create", "train", "--memory", "64M")
    for seconds in ("0", "3601", "-1", "1.5", "soon", ""):
        assert "from 1 to 3600" in node.virgate("trace", "-o", "x", f"--seconds={seconds}", code=2), seconds
    assert "--output trace.json" in node.virgate("trace", code=2)
    assert "there is no GPU 7: this node has 2" in node.virgate("trace", "-o", "x", "--device", "7", code=1)
    missing = f"{node.directory}/missing/trace.json"
    assert f"cannot write the trace to {missing}: No such file" in node.virgate("trace", "-o", missing, code=1)
    assert "Is a directory" in node.virgate("trace", "-o", node.directory, code=1)
    assert "not a regular file" in node.virgate("trace", "-o", "/dev/null", code=1)
    assert os.path.exists("/dev/null") and not drafts(node)


def test_a_full_disk_leaves_no_file(node):
    node.virgate("create", "train", "--memory", "64M")
    path = f"{node.directory}/trace.json"
    with open(path, "w", encoding="ascii") as file:
        file.write("before")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
    done = subprocess.run([f"{node.build}/cli/virgate", "trace", "--seconds", "2", "-o", path], env=node.environment,
                          text=True, capture_output=True, timeout=PATIENCE_S, check=False, preexec_fn=limit)
    assert done.returncode == 1 and f"cannot write the trace to {path}: File too large" in done.stderr, done
    assert open(path, encoding="ascii").read() == "before" and not drafts(node)


def test_an_existing_file_is_replaced_with_the_usual_mode(node):
    node.virgate("create", "train", "--memory", "64M")
    path = f"{node.directory}/trace.json"
    with open(path, "w", encoding="ascii") as file:
        file.write("before")
    os.umask(0o027)
    trace, said = record(node, "--seconds", "1")
    os.umask(0o022)
    assert os.stat(path).st_mode & 0o777 == 0o640 and "0 programs, 0 turns, 0 events" in said, said
    assert list(trace.processes.values()) == ["GPU 0: Virgate Simulated GPU", "vGPU train on GPU 0"]


def test_other_users_see_what_ps_shows(node):
    if os.geteuid() != 0:
        raise Skipped("needs root")
    prepare(node)
    node.environment["VIRGATE_SYSTEM_DIR"] = f"{node.directory}/run"
    os.chmod(node.directory, 0o755)
    for name in ("run", "sim"):
        os.chmod(f"{node.directory}/{name}", 0o711)
    node.start(f"{node.build}/daemon/virgated", "--system", stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(f"{node.directory}/run/virgated.sock"), "the daemon")
    for vgpu in ("one", "two"):
        node.virgate("create", vgpu, "--memory", "512M", "--share", "40", "--device", "0")
    programs = [begin(node, "one"), begin(node, "two")]
    theirs = f"{node.directory}/theirs"
    os.mkdir(theirs)
    os.chown(theirs, 65534, 65534)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"{node.build}/cli/virgate",
                           "trace", "--seconds", "2", "-o", f"{theirs}/trace.json"], env=node.environment,
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode and "Permission" in done.stderr + done.stdout:
        raise Skipped("the build directory is not readable for other users")
    assert done.returncode == 0 and "2 vGPUs, 0 programs" in done.stdout, done
    trace = Trace(f"{theirs}/trace.json")
    shown = trace.slices("vGPU one ", "turns") + trace.slices("GPU 0", "who has the GPU")
    assert shown and not any("launches" in event["args"] for event in shown)
    text = json.dumps(trace.events)
    assert "trace_load" not in text and "copied" not in text
    names = [name for event in trace.events for name in (event.get("name"), event.get("args", {}).get("name"))]
    # Search only the names for the pid, since times and counters may contain the same digits by chance.
    assert not any(str(programs[0].pid) in str(name) for name in names)
    assert max(trace.counters("vGPU one ", "memory charged")) >= 64
    for program in programs:
        finish(program)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
