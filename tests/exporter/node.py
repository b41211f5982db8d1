"""Starts a daemon on the simulated GPU for one test, and an exporter that reads from it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

PATIENCE_S = 60


class Skipped(Exception):
    """Raised if the test cannot run on this machine."""


def wait_for(condition, what):
    """Waits until condition() is true, and returns its value. `what` is for the message after a timeout."""
    end = time.monotonic() + PATIENCE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {PATIENCE_S} s")
        time.sleep(0.05)


class Node:
    def __init__(self, build):
        self.build = build
        self.directory = tempfile.mkdtemp(prefix="virgate-test-", dir="/tmp")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("VIRGATE_")}
        self.processes = []
        for name in ("run", "state", "sim"):
            os.mkdir(f"{self.directory}/{name}", 0o700)
        self.environment |= {
            "VIRGATE_RUNTIME_DIR": f"{self.directory}/run", "VIRGATE_STATE_DIR": f"{self.directory}/state",
            "VIRGATE_SIM_DIR": f"{self.directory}/sim", "VIRGATE_CLAIMS_DIR": f"{self.directory}/claims",
            "VIRGATE_SIM": "devices=2,memory=4G,ctx=16M", "VIRGATE_DAEMON": f"{build}/daemon/virgated",
            "XDG_CONFIG_HOME": self.directory, "VIRGATE_SYSTEM_CONFIG": f"{self.directory}/none"}

    def start(self, *words, **options):
        process = subprocess.Popen(words, env=self.environment, text=True, start_new_session=True, **options)
        self.processes.append(process)
        return process

    def virgate(self, *words, code=0):
        done = subprocess.run([f"{self.build}/cli/virgate", *words], env=self.environment, text=True,
                              capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == code, f"virgate {' '.join(words)}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def exporter(self, *words):
        """Starts an exporter. Returns its process, and the address on which it listens."""
        process = self.start(f"{self.build}/exporter/virgate-exporter", *words, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        line = process.stdout.readline()
        assert line.startswith("serves "), process.stderr.read()
        return process, line.removeprefix("serves ").strip()

    def stop(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                # the process group also contains the programs that `virgate run` has started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        if os.path.exists(f"{self.directory}/run/virgated.sock"):
            with contextlib.suppress(AssertionError):
                self.virgate("shutdown")
        shutil.rmtree(self.directory, ignore_errors=True)


def run_tests(module, build, *arguments):
    """Runs each function test_… of the module with a daemon and simulated GPUs of its own. Prints how many passed and
    failed."""
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    wanted = arguments and [word for word in arguments if not word.startswith("-")]
    for name, function in list(vars(module).items()):
        if not name.startswith("test_") or (wanted and not any(word in name for word in wanted)):
            continue
        node, result, why = Node(build), "ok", ""
        try:
            function(node)
        except Skipped as skipped:
            result, why = "skip", f": {skipped}"
        except Exception:  # pylint: disable=broad-except
            result, why = "FAIL", f": {traceback.format_exc()}"
        finally:
            node.stop()
        counts[result] += 1
        print(f"{result} {name.removeprefix('test_')}{why}", flush=True)
    print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    sys.exit(1 if counts["FAIL"] else 0 if counts["ok"] else 77)
