#!/usr/bin/env python3
"""shares.py VIRGATE TURN_LOAD WINDOWS POINTS: two programs with shares of 30 and 70 on the simulated GPU.

Each keeps the GPU busy and prints how much work it has done. In every window of 2 seconds each must have its part of
the sum, within POINTS. Somebody else may take the processors meanwhile: up to three tries."""

import json
import os
import subprocess
import sys
import tempfile

WINDOW = 2_000_000_000
TRIES = 3
SHARES = {"small": 30, "large": 70}


def work_until(lines, time):
    """The work done at that time, between two lines in proportion."""
    for (before, done), (after, more) in zip(lines, lines[1:]):
        if before <= time <= after:
            return done + (more - done) * (time - before) / (after - before)
    sys.exit(f"no work was counted around {time}: {lines[:1]} to {lines[-1:]}")


class Node:
    def __init__(self, virgate, load, place):
        self.virgate, self.load = virgate, load
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("VIRGATE_")}
        for name in ("RUNTIME", "STATE", "SIM"):
            path = os.path.join(place, name.lower())
            os.mkdir(path, 0o700)
            self.environment[f"VIRGATE_{name}_DIR"] = path

    def ask(self, *words):
        return subprocess.run([self.virgate, *words, "--sim"], env=self.environment, check=True, capture_output=True,
                              text=True).stdout

    def start(self, name, *words):
        return subprocess.Popen([self.virgate, "run", "--sim", "--vgpu", name, "--", self.load, *words],
                                env=self.environment, stdout=subprocess.PIPE, text=True)

    def turns(self, name):
        return json.loads(self.ask("inspect", name, "--json"))["vgpu"]["turns"]

    def measure(self, rounds, windows):
        """The parts of the first one in percent, one of each window, and the turns of both at the end."""
        seconds = str(2 * windows + 3)
        running = {name: self.start(name, "train", seconds, rounds) for name in SHARES}
        lines, turns = {}, {}
        for name, program in running.items():
            lines[name] = []
            for line in program.stdout:
                lines[name].append(tuple(map(int, line.split())))
                begin = lines[name][0][0]
                if name not in turns and lines[name][-1][0] > begin + windows * WINDOW:
                    turns = {each: self.turns(each) for each in SHARES}
            if program.wait() or len(lines[name]) < 2:
                sys.exit(f"{name} ended with {program.returncode}: {lines[name]}")
        begin = max(each[0][0] for each in lines.values()) + WINDOW // 4
        parts = []
        for window in range(windows):
            at = begin + window * WINDOW
            done = {name: work_until(lines[name], at + WINDOW) - work_until(lines[name], at) for name in SHARES}
            parts.append(100 * done["small"] / sum(done.values()))
        return parts, turns


def check_turns(turns):
    for name, one in turns.items():
        assert one and one["mode"] == "time", (name, one)
        assert 0 < one["recent"] <= 100 and one["gpu_time"] > 0 and one["waited"] > 0, (name, one)
        assert one["turns"] > 0 and one["quantum"] > 0 and one["holder"] in (None, *SHARES), (name, one)
        assert one["weight"] == SHARES[name], (name, one)


def main():
    virgate, load, windows, points = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    with tempfile.TemporaryDirectory(prefix="virgate-shares-") as place:
        node = Node(virgate, load, place)
        try:
            for name, share in SHARES.items():
                node.ask("create", name, "--memory", "256M", "--share", str(share))
            rounds = node.start("small", "calibrate").communicate()[0].strip()
            for _ in range(TRIES):
                parts, turns = node.measure(rounds, windows)
                check_turns(turns)
                print("share of 30 %: " + " ".join(f"{part:.1f}" for part in parts))
                held = all(one["held"] for one in turns.values())
                if held and all(abs(part - SHARES["small"]) <= points for part in parts):
                    print("1 passed, 0 failed, 0 skipped")
                    return
            sys.exit(f"not within {points} points, or not held, in {TRIES} tries: {turns}")
        finally:
            node.ask("shutdown")


main()
