"""Helpers of the GPU suite's scripts: paths of the programs, vGPUs to run programs in, NVML's figures, and counting of
tests. Each script prints ok/FAIL/skip lines and ends with "N passed, N failed, N skipped"."""

import atexit
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
POOL_SLACK = 32 * MiB  # memory that a pool may allocate beyond what is charged for it


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def check(condition, words):
    if not condition:
        raise Failure(words)


def locate():
    """Returns the paths of virgate, the examples and the test programs, in a build directory or an unpacked bundle."""
    root = os.path.abspath(os.environ.get("VIRGATE_ROOT") or (sys.argv[1] if len(sys.argv) > 1 else "build"))
    if os.path.exists(f"{root}/bin/virgate"):
        rooms = f"{root}/libexec/virgate"
        return f"{root}/bin/virgate", f"{rooms}/examples", f"{rooms}/tests/gpu"
    if os.path.exists(f"{root}/cli/virgate"):
        return f"{root}/cli/virgate", f"{root}/examples", f"{root}/tests/gpu"
    sys.exit(f"{root} is neither a build nor a bundle of Virgate")


VIRGATE, EXAMPLES, PROGRAMS = locate()
SIM = bool(os.environ.get("VIRGATE_SIM"))  # run the tests on the simulated GPU, with smaller sizes
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = sys.executable


def use_private_daemon():
    """Makes the script use its own daemon, so that the user's daemon is not touched."""
    if "VIRGATE_RUNTIME_DIR" in os.environ:
        return
    directory = tempfile.mkdtemp(prefix="virgate-gpu-")
    for name in ("VIRGATE_RUNTIME_DIR", "VIRGATE_STATE_DIR"):
        os.environ[name] = f"{directory}/{name[8:11].lower()}"
        os.mkdir(os.environ[name], 0o700)
    atexit.register(leave, directory)


def leave(directory):
    subprocess.run([VIRGATE, "shutdown", *(["--sim"] if SIM else [])], capture_output=True, check=False)
    shutil.rmtree(directory, ignore_errors=True)


use_private_daemon()


def find_real(name):
    """Returns the path of the real library, never of an interposer."""
    if SIM:
        return os.environ["VIRGATE_NVML"]
    listing = ""
    for ldconfig in ("/sbin/ldconfig", "ldconfig"):
        try:
            listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
            break
        except OSError:
            continue
    found = re.findall(rf"{re.escape(name)} .*=> (\S+)", listing)
    found += [f"{directory}/{name}"
              for directory in ("/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64", "/usr/lib64", "/usr/lib")]
    for path in found:
        if os.path.exists(path):
            return path
    return name


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint),
                ("compute", ctypes.c_uint)]


class Nvml:
    """Reads the physical figures of NVML, which it reports outside every vGPU."""

    def __init__(self, index=0):
        self.library = ctypes.CDLL(find_real("libnvidia-ml.so.1"))
        check(self.library.nvmlInit_v2() == 0, "NVML does not start")
        self.device = ctypes.c_void_p()
        check(self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.device)) == 0, "no GPU 0")

    def uuid(self):
        text = ctypes.create_string_buffer(96)
        check(self.library.nvmlDeviceGetUUID(self.device, text, len(text)) == 0, "NVML tells no UUID")
        return text.value.decode()

    def memory(self):
        values = (ctypes.c_ulonglong * 3)()
        check(self.library.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(values)) == 0, "NVML tells no memory")
        return {"total": values[0], "free": values[1], "used": values[2]}

    def processes(self):
        count = ctypes.c_uint(1024)
        infos = (ProcessInfo * 1024)()
        result = self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), infos)
        check(result == 0, f"NVML lists no processes: {result}")
        return {infos[i].pid: infos[i].used for i in range(count.value)}


def virgate(*words, timeout=30, good=True):
    """Runs a verb, and returns its standard output."""
    if SIM:
        words = (words[0], "--sim", *words[1:])
    done = subprocess.run([VIRGATE, *words], capture_output=True, text=True, timeout=timeout, check=False,
                          stdin=subprocess.DEVNULL)
    if good:
        check(done.returncode == 0, f"virgate {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def vgpu(name):
    for one in json.loads(virgate("ps", "--json"))["vgpus"]:
        if one["name"] == name:
            return one
    return None


def inside(where, command, **options):
    """Returns the command line that runs a command in a vGPU. where: {"name": …, "memory": …} or {"vgpu": …}; an option
    without an argument has the value True."""
    words = [VIRGATE, "run"] + (["--sim"] if SIM else [])
    for key, value in where.items():
        words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return words + ["--"] + list(command)


def start(command, env=None, limit=90):
    """Starts a command in its own process group, which is killed after `limit` seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL, start_new_session=True)
    process.late = False

    def kill():
        process.late = True
        kill_group(process)

    process.timer = threading.Timer(limit, kill)
    process.timer.daemon = True
    process.timer.start()
    return process


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def start_inside(where, command, env=None, limit=90):
    return start(inside(where, command), env, limit)


def run_inside(where, command, timeout=90, env=None, good=True):
    process = start_inside(where, command, env, timeout)
    output, errors = process.communicate()
    process.timer.cancel()
    name = os.path.basename(command[0])
    check(not process.late, f"{name} took longer than {timeout} s: {output[-300:].strip()} {errors[-600:].strip()}")
    if good:
        check(process.returncode == 0, f"{name} ended with {process.returncode}: "
              f"{output[-400:].strip()} {errors[-800:].strip()}")
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def stop(process):
    process.timer.cancel()
    if process.poll() is None:
        kill_group(process)
    if not process.stdout.closed:
        process.communicate()


def wait_for(condition, seconds, words):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise Failure(f"not within {seconds} s: {words}")


def size_text(size):
    return f"{size / MiB:.1f} MiB"


def wait_idle(nvml, seconds=10):
    """Waits until no program is left on the GPU, but not longer than `seconds`."""
    end = time.monotonic() + seconds
    while nvml.processes() and time.monotonic() < end:
        time.sleep(0.02)


class Suite:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def test(self, name, function, *arguments):
        start = time.monotonic()
        try:
            words = function(*arguments)
            self.passed += 1
            print(f"ok {name}{': ' + words if words else ''} ({time.monotonic() - start:.1f} s)", flush=True)
        except Skip as reason:
            self.skipped += 1
            print(f"skip {name}: {reason}", flush=True)
        except Failure as what:
            self.failed += 1
            print(f"FAIL {name}: {what}", flush=True)
        except Exception:  # an error in the script itself is a failure, and does not end the suite
            self.failed += 1
            print(f"FAIL {name}: {traceback.format_exc().strip()}", flush=True)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        sys.exit(1 if self.failed or self.passed + self.skipped == 0 else 0)


def need_module(name):
    there = f"import importlib.util,sys; sys.exit(importlib.util.find_spec('{name}') is None)"
    done = subprocess.run([PYTHON, "-c", there], check=False)
    if done.returncode:
        raise Skip(f"python3 has no {name}")


def need_program(name):
    path = shutil.which(name)
    if not path:
        raise Skip(f"there is no {name}")
    return path
