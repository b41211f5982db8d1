#!/usr/bin/env python3
"""bench_watch.py BUILD [SECONDS]: measures what it costs to watch a node with 16 vGPUs and 64 programs on two simulated
GPUs: unwatched, with a scrape of the metrics each second, with a page open in a browser, too, and with its single turns
open. Then two programs share a GPU, with the single turns closed and open. Without Chromium, it requests what the page
requests. Fails if the watched daemon needs 1 % of a processor more, also for the turns, or 64 MiB of memory."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/exporter"))
import browser as browsers  # noqa: E402
from node import Node, wait_for  # noqa: E402

VGPUS, PROGRAMS, PAGE_TICK_S, TURNS_TICK_S = 16, 64, 2, 1
CPU_MOST, MEMORY_MOST = 1.0, 64 << 20


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return body


def cpu_ns(pid):
    """Returns the processor time of all threads."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) << 10


def repeat(end, period, action):
    """Calls action() every `period` seconds until `end` is set."""
    due = time.monotonic()
    while not end.wait(max(0, due - time.monotonic())):
        action()
        due += period


def fill(node):
    for i in range(VGPUS):
        node.virgate("create", f"vgpu{i}", "--memory", "512M", "--device", str(i % 2), "--share", "5")
    for i in range(PROGRAMS):
        node.start(f"{node.build}/cli/virgate", "run", "--vgpu", f"vgpu{i % VGPUS}", "--",
                   f"{node.build}/examples/grow", "--chunk", "16M", "--most", "16M", "--hold", "100000", "--no-touch",
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(re.findall(r"^ +\d+ grow", node.virgate("ps"), re.M)) == PROGRAMS, "the programs")


def contend(node):
    """Starts two programs that share the first GPU."""
    for vgpu in ("vgpu0", "vgpu2"):
        node.start(f"{node.build}/cli/virgate", "run", "--vgpu", vgpu, "--", f"{node.build}/examples/matmul", "--size",
                   "64", "--seconds", "100000", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(re.findall(r"^ +\d+ matmul", node.virgate("ps"), re.M)) == 2, "the two programs")


def measure(name, seconds, daemon, exporter):
    before = {pid: cpu_ns(pid) for pid in (daemon, exporter)}
    begun = time.monotonic()
    time.sleep(seconds)
    elapsed = (time.monotonic() - begun) * 1e9
    percent = {pid: 100 * (cpu_ns(pid) - before[pid]) / elapsed for pid in before}
    print(f"{name:26} daemon {percent[daemon]:.2f} % of a processor, {resident(daemon) / 2**20:.1f} MiB; exporter "
          f"{percent[exporter]:.2f} %, {resident(exporter) / 2**20:.1f} MiB", flush=True)
    return percent[daemon]


class Requests:
    """Requests what a page requests, without a browser."""

    def __init__(self, port):
        self.port, self.end, self.has_turns, self.after = port, threading.Event(), False, 0
        self.threads = [threading.Thread(target=repeat, args=(self.end, PAGE_TICK_S, self.tick)),
                        threading.Thread(target=repeat, args=(self.end, TURNS_TICK_S, self.follow_turns))]
        for thread in self.threads:
            thread.start()
        print("page                       requested without a browser")

    def tick(self):
        get(self.port, "/")
        if int(time.monotonic()) % 10 < PAGE_TICK_S:
            get(self.port, "/api/history?figures=charged,gpu_ns")

    def follow_turns(self):
        if self.has_turns:
            self.after = json.loads(get(self.port, f"/api/turns?after={self.after}"))["next"]

    def show_turns(self, are_shown):
        self.has_turns = are_shown

    def stop(self):
        self.end.set()
        for thread in self.threads:
            thread.join()


class Page(browsers.Browser):
    def __init__(self, port):
        super().__init__()
        self.open(f"http://127.0.0.1:{port}/")
        ready = self.wait("document.documentElement.dataset.ready", "the page is ready")
        size = self.run("return performance.getEntries().reduce((sum, one) => sum + (one.transferSize ?? 0), 0)")
        print(f"page                       {size / 1024:.0f} KiB at the first view, ready after {ready} ms")

    def show_turns(self, are_shown):
        self.run("document.querySelector('#turns').open = arguments[0]", are_shown)


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    node, end = Node(sys.argv[1]), threading.Event()
    node.environment["VIRGATE_SIM"] += ",slice=20ms"
    node.environment["VIRGATE_SIM_COST"] = "kernel=2ms"
    page = None
    try:
        fill(node)
        exporter, where = node.exporter("--listen", "127.0.0.1:0")
        port = int(re.search(r":(\d+)/", where)[1])
        daemon = int(re.search(r'"pid": (\d+)', node.virgate("events", "--json"))[1])

        def run(name):
            return measure(name, seconds, daemon, exporter.pid)
        time.sleep(5)
        unwatched = run("unwatched")
        threading.Thread(target=repeat, args=(end, 1, lambda: get(port, "/metrics"))).start()
        run("scraped")
        page = Requests(port) if browsers.missing() else Page(port)
        watched = run("scraped, page open")
        page.show_turns(True)
        turns = run("single turns open")
        page.show_turns(False)
        contend(node)
        busy = run("busy, turns closed")
        page.show_turns(True)
        busy_turns = run("busy, turns open")
        more, memory = watched - unwatched, max(resident(daemon), resident(exporter.pid))
        turns_more = max(turns - watched, busy_turns - busy)
        print(f"{more:.2f} % of a processor more, and {turns_more:.2f} % for single turns (at most {CPU_MOST:.0f} "
              f"each), {memory / 2**20:.1f} MiB at most (64)")
        return 1 if max(more, turns_more) > CPU_MOST or memory > MEMORY_MOST else 0
    finally:
        end.set()
        if page:
            page.stop()
        node.stop()


sys.exit(main())
