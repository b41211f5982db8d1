#!/usr/bin/env python3
"""bench_watch.py BUILD [SECONDS]: measures what it costs to watch a node with 16 vGPUs and 64 programs on two simulated
GPUs: unwatched, with a scrape of the metrics each second, and with a page open in a browser, too. Without Chromium, it
requests what the page requests. Fails if the watched daemon needs 1 % of a processor more, or 64 MiB of memory."""

import http.client
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

VGPUS, PROGRAMS, PAGE_TICK_S = 16, 64, 2
CPU_MOST, MEMORY_MOST = 1.0, 64 << 20


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return len(body)


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


def measure(name, seconds, daemon, exporter):
    before = {pid: cpu_ns(pid) for pid in (daemon, exporter)}
    begun = time.monotonic()
    time.sleep(seconds)
    elapsed = (time.monotonic() - begun) * 1e9
    percent = {pid: 100 * (cpu_ns(pid) - before[pid]) / elapsed for pid in before}
    print(f"{name:20} daemon {percent[daemon]:.2f} % of a processor, {resident(daemon) / 2**20:.1f} MiB; exporter "
          f"{percent[exporter]:.2f} %, {resident(exporter) / 2**20:.1f} MiB", flush=True)
    return percent[daemon]


def open_page(port, end):
    """Opens the page, and returns what closes it."""
    address = f"http://127.0.0.1:{port}/"
    if browsers.missing():
        def tick():
            get(port, "/")
            if int(time.monotonic()) % 10 < PAGE_TICK_S:
                get(port, "/api/history?figures=charged,gpu_ns")

        thread = threading.Thread(target=repeat, args=(end, PAGE_TICK_S, tick))
        thread.start()
        print("page                 requested without a browser")
        return thread.join
    browser = browsers.Browser()
    browser.open(address)
    ready = browser.wait("document.documentElement.dataset.ready", "the page is ready")
    size = browser.run("return performance.getEntries().reduce((sum, one) => sum + (one.transferSize ?? 0), 0)")
    print(f"page                 {size / 1024:.0f} KiB at the first view, ready after {ready} ms")
    return browser.stop


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    node, end = Node(sys.argv[1]), threading.Event()
    close = None
    try:
        fill(node)
        exporter, where = node.exporter("--listen", "127.0.0.1:0")
        port = int(re.search(r":(\d+)/", where)[1])
        daemon = int(re.search(r'"pid": (\d+)', node.virgate("events", "--json"))[1])
        time.sleep(5)
        unwatched = measure("unwatched", seconds, daemon, exporter.pid)
        scraper = threading.Thread(target=repeat, args=(end, 1, lambda: get(port, "/metrics")))
        scraper.start()
        measure("scraped", seconds, daemon, exporter.pid)
        close = open_page(port, end)
        watched = measure("scraped, page open", seconds, daemon, exporter.pid)
        more, memory = watched - unwatched, max(resident(daemon), resident(exporter.pid))
        print(f"{more:.2f} % of a processor more (at most {CPU_MOST:.0f}), {memory / 2**20:.1f} MiB at most (64)")
        return 1 if more > CPU_MOST or memory > MEMORY_MOST else 0
    finally:
        end.set()
        if close:
            close()
        node.stop()


sys.exit(main())
