#!/usr/bin/env python3
"""test_demo_chart.py ROOT: tests the bars of scripts/demo-chart, as text, in colour, and with missing figures."""

import json
import os
import pty
import subprocess
import sys
import tempfile

MIB = 1 << 20


def vgpu(name, charged, limit, share=0, gpu_time=None):
    return {"name": name, "charged": charged, "memory": limit, "share": share,
            "turns": None if gpu_time is None else {"gpu_time": gpu_time}}


class Chart:
    def __init__(self, root, directory):
        self.script, self.directory = f"{root}/scripts/demo-chart", directory

    def write(self, name, *vgpus):
        with open(f"{self.directory}/{name}", "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "vgpus": vgpus}, file)
        return file.name

    def run(self, *words, columns=60, **options):
        environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
        environment.pop("NO_COLOR", None)
        return subprocess.run([self.script, *words], env=environment, check=False, **options)

    def text(self, *words, **options):
        done = self.run(*words, stdout=subprocess.PIPE, **options)
        assert done.returncode == 0, done
        return done.stdout.decode("utf-8")

    def on_terminal(self, *words):
        master, slave = pty.openpty()
        self.run(*words, stdout=slave)
        os.close(slave)
        return os.read(master, 65536).decode("utf-8")


def check(chart):
    memory = chart.write("memory", vgpu("full", 512 * MIB, 512 * MIB), vgpu("half", 256 * MIB, 512 * MIB),
                         vgpu("none", 0, 0))
    shares = chart.write("shares", vgpu("small", 0, MIB, 30, 1.0), vgpu("large", 0, MIB, 70, 3.0))
    text = chart.text("--ascii", memory, shares)
    assert text == """\
Memory of each vGPU, of its limit
  full  512.0 MiB of 512.0 MiB  ###########################
  half  256.0 MiB of 512.0 MiB  #############..............
  none              0 B of 0 B  ...........................
GPU time of each vGPU; | is its share
  small  25.0 %, share 30 %  #######..|....................
  large  75.0 %, share 70 %  #####################|........
""", text
    assert "  half  256.0 MiB of 512.0 MiB  █████████████░░░" in chart.text(memory, shares)
    assert "\x1b" not in chart.text(memory, shares) and "\x1b[32m##" in chart.on_terminal("--ascii", memory, shares)
    assert max(map(len, chart.text(memory, shares, columns=200).splitlines())) < 100
    assert "  ##########\n" in chart.text("--ascii", memory, shares, columns=10)
    unknown = chart.write("unknown", vgpu("small", 0, MIB, 30), vgpu("large", 0, MIB, 70, 0.0))
    for path in (unknown, chart.write("empty")):
        assert chart.text("--ascii", memory, path).endswith("is its share: unknown\n")
    wrong = chart.run("--ascii", memory, stderr=subprocess.PIPE)
    assert wrong.returncode == 1 and b"demo-chart [--ascii] MEMORY SHARES" in wrong.stderr, wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="virgate-test-") as scratch:
        check(Chart(sys.argv[1], scratch))
    print("1 passed, 0 failed, 0 skipped")
