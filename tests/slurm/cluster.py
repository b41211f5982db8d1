"""A cluster of Slurm on one machine: munged, slurmctld, and a slurmd with a daemon of Virgate for each node.

Everything is in one directory below /tmp, and every process is a child of this one, which ends it. The processes of a
node have a mount namespace of their own. So the paths of the daemon and of the simulated GPUs are the same on all
nodes, as they are on several machines. Needs root: slurmd starts the jobs of other users.
"""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scancel", "scontrol", "squeue")
SEARCH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
NOBODY = 65534  # a user that exists on every machine
PATIENCE = 90  # seconds to wait for an event, because the machine may be busy


def find_missing():
    """Returns the reason why a cluster cannot run on this machine, or None if it can."""
    if os.geteuid() != 0:
        return "root: slurmd starts the jobs of other users"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=SEARCH)]
    if missing:
        return "Slurm and munge: there is no " + ", ".join(missing)
    if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False).returncode:
        return "the right to make mount and network namespaces"
    return None


def wait_until(what, condition, seconds=PATIENCE, look=None):
    """Waits until condition() is true, and returns its value. `what` is for the message after a timeout."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s" + (f"\n{look()}" if look else ""))
        time.sleep(0.05)


def free_ports(count):
    """Returns ports that no process uses now, and that the kernel does not give to clients."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        low = int(file.read().split()[0])
    ports = []
    for port in range(low - 1 - random.randrange((low - 1024) // 2), 1024, -1):
        with contextlib.closing(socket.socket()) as probe:
            try:
                probe.bind(("127.0.0.1", port))
                ports.append(port)
            except OSError:
                continue
        if len(ports) == count:
            return ports
    raise AssertionError("no free ports")


def find_problem(build):
    """Returns the reason why a cluster cannot run on this machine, or None if it can.

    Starts a cluster with nothing of Virgate in it, and runs a job there. If that works, a cluster with the plugin must
    work, too: a failure is then a mistake of the plugin, not a problem of the machine.
    """
    why = find_missing()
    if why:
        return why
    bare = Cluster(build, nodes=1, plugin=False)
    try:
        with bare:
            done = bare.call(["srun", "/bin/true"], user=NOBODY, check=False, timeout=PATIENCE)
            if done.returncode:
                raise AssertionError(f"srun /bin/true: {' '.join(done.stderr.split())}")
    except (AssertionError, OSError, subprocess.TimeoutExpired):
        return f"a Slurm that works on this machine: {bare.problem}"
    return None


class Node:
    def __init__(self, cluster, name, port):
        self.cluster, self.name, self.port = cluster, name, port
        self.directory = cluster.directory / name
        # in the mount namespace of this node, cluster.common / "run" is the same directory
        self.run = self.directory / "run"
        self.slurmd = self.daemon = None
        for part in ("spool", "run", "state", "sim"):
            (self.directory / part).mkdir(parents=True)
        for part in (self.directory, self.run, self.directory / "sim"):
            part.chmod(0o755)

    def environment(self, directory=None):
        directory = directory or self.directory
        return dict(self.cluster.environment, VIRGATE_LIBDIR=str(self.cluster.libraries),
                    VIRGATE_RUNTIME_DIR=str(directory / "run"), VIRGATE_STATE_DIR=str(directory / "state"),
                    VIRGATE_SIM=self.cluster.simulate, VIRGATE_SIM_DIR=str(directory / "sim"),
                    VIRGATE_START_DAEMON="no",
                    VIRGATE_SYSTEM_CONFIG=str(self.cluster.directory / "virgate.conf"))

    def start(self, words, name, environment, namespaces=(), **more):
        """Starts a process in a mount namespace of its own. In it, cluster.common is the directory of this node."""
        mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        return self.cluster.start(["unshare", "--mount", "--propagation", "private", *namespaces, "sh", "-c", mount,
                                   "sh", self.directory, self.cluster.common, *words], name, environment, **more)

    def start_daemon(self):
        ready, write = os.pipe()
        # The daemon has its own network namespace: it binds an abstract socket, whose name depends on the directory,
        # and all nodes have the same one.
        self.daemon = self.start([self.cluster.build / "daemon/virgated", "--system", "--ready-fd", write],
                                 f"{self.name}-virgated", self.environment(self.cluster.common), ["--net"],
                                 pass_fds=[write])
        os.close(write)
        with os.fdopen(ready, "rb") as file:
            if file.read(1) != b"1":
                raise AssertionError(f"the daemon of {self.name} does not start:\n{self.cluster.log()}")

    def start_slurmd(self):
        environment = dict(self.cluster.environment, SLURMD_NODENAME=self.name)
        self.slurmd = self.start(["slurmd", "-D", "-N", self.name], f"{self.name}-slurmd", environment)

    def stop(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        process.wait()

    def virgate(self, *words, user=None, check=True):
        return self.cluster.call([self.cluster.build / "cli/virgate", *words], user=user, check=check,
                                 environment=self.environment())

    def vgpus(self):
        """Returns the names of the vGPUs of this node."""
        lines = self.virgate("ps", "--sim").stdout.splitlines()[1:]
        return sorted({line.split()[0] for line in lines if line and not line.startswith(" ")})


class Cluster:
    def __init__(self, build, nodes=2, gpus=2, arguments=(), extra="", plugin=True):
        self.build = pathlib.Path(build).resolve()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vgslurm-", dir="/tmp"))
        self.directory.chmod(0o755)
        self.gpus, self.simulate = gpus, f"devices={gpus},memory=8G,ctx=16M"
        self.plugin = plugin
        self.children, self.running, self.problem = [], {}, None
        self.environment = {"PATH": SEARCH, "SLURM_CONF": str(self.directory / "slurm.conf"), "LC_ALL": "C",
                            "HOME": "/"}
        self.libraries = self.library_directory()
        ports = free_ports(nodes + 1)
        self.controller_port = ports[0]
        self.common = self.directory / "node"
        self.common.mkdir()
        self.nodes = [Node(self, f"node{i + 1}", ports[i + 1]) for i in range(nodes)]
        (self.directory / "jobs").mkdir()
        (self.directory / "jobs").chmod(0o1777)
        self.write_configuration(arguments, extra, plugin)

    def library_directory(self):
        """Makes a directory with the interposers and the simulated driver, arranged as in an installation."""
        directory = self.directory / "lib"
        (directory / "sim").mkdir(parents=True)
        for name in ("libvirgate-cuda.so", "libvirgate-nvml.so"):
            (directory / name).symlink_to(self.build / "shim" / name)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (directory / "sim" / name).symlink_to(self.build / "sim" / name)
        return directory

    def write_configuration(self, arguments, extra, has_plugin):
        here, host = self.directory, socket.gethostname().split(".")[0]
        for index in range(self.gpus):
            (here / f"nvidia{index}").symlink_to("/dev/null")  # Slurm requires a device file for each GPU
        nodes = "\n".join(f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={node.port} CPUs=16 "
                          f"RealMemory=100 Gres=gpu:{self.gpus},shard:{8 * self.gpus}" for node in self.nodes)
        (here / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={self.controller_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={here}/munge,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/%n/slurmd.pid
SlurmdSpoolDir={here}/%n/spool
StateSaveLocation={here}/state
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/%n-slurmd.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu,shard
PlugStackConfig={here}/plugstack.conf
KillWait=5
RequeueExit=75
{extra}
{nodes}
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
        (here / "gres.conf").write_text(f"Name=gpu File={here}/nvidia[0-{self.gpus - 1}]\n"
                                        f"Name=shard Count={8 * self.gpus}\n")
        (here / "virgate.conf").write_text("[profile 1g-25]\nmemory = 1G\nshare = 25\nclass = latency\n"
                                           "[profile 3g]\nmemory = 3G\n[profile huge]\nmemory = 64G\n")
        plugin = self.build / "integrations/slurm/virgate-slurm.so"
        words = [f"runtime_dir={self.common}/run", f"libdir={here}/lib", f"state_dir={self.common}/refusals",
                 f"config={here}/virgate.conf",
                 f"simulate={self.simulate}", *arguments]
        (here / "plugstack.conf").write_text(f"required {plugin} {' '.join(words)}\n" if has_plugin else "")

    def start(self, words, name, environment=None, **more):
        with open(self.directory / f"{name}.out", "ab") as out:
            process = subprocess.Popen([str(word) for word in words], env=environment or self.environment,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", **more)
        self.children.append(process)
        self.running[name] = process
        return process

    def find_ended(self):
        """Returns what the first daemon that has ended printed last, or None if all run."""
        for name, process in self.running.items():
            if process.poll() is not None:
                return f"{name} ended with status {process.returncode}: {self.last_line(name)}"
        return None

    def last_line(self, name):
        for path in (self.directory / f"{name}.out", self.directory / f"{name}.log"):
            lines = path.read_text(errors="replace").strip() if path.exists() else ""
            if lines:
                return lines.splitlines()[-1].strip()
        return "it printed nothing"

    def wait_for_start(self, what, condition):
        """Waits until condition() is true, but not if a daemon has ended."""
        def has_started():
            ended = self.find_ended()
            if ended:
                raise AssertionError(f"{what}: {ended}\n{self.log()}")
            return condition()
        wait_until(what, has_started, look=self.log)

    def describe_problem(self, error):
        """Returns a line that says why the cluster does not work, with the last error in the logs of its daemons."""
        errors = [line for line in self.log().splitlines() if re.search(r"\b(error|fatal): ", line)]
        said = (str(error) or repr(error)).splitlines()[0]
        return f"{said}; the last error in the logs: {errors[-1].strip()}" if errors and not self.find_ended() else said

    def __enter__(self):
        try:
            key = self.directory / "munge.key"
            key.write_bytes(os.urandom(1024))
            key.chmod(0o600)
            (self.directory / "state").mkdir()
            self.start(["munged", "--foreground", "--force", f"--socket={self.directory}/munge", f"--key-file={key}",
                        f"--pid-file={self.directory}/munge.pid", f"--seed-file={self.directory}/munge.seed",
                        f"--log-file={self.directory}/munge.log"], "munged")
            self.wait_for_start("munged listens", (self.directory / "munge").exists)
            self.start_controller()
            for node in self.nodes:
                if self.plugin:
                    node.start_daemon()
                node.start_slurmd()
            self.wait_for_start("the nodes are idle", self.are_nodes_idle)
        except BaseException as error:
            self.__exit__(type(error), error)
            raise
        return self

    def start_controller(self):
        self.controller = self.start(["slurmctld", "-D"], "slurmctld")

    def are_nodes_idle(self):
        states = self.call(["sinfo", "-h", "-N", "-o", "%t"], check=False).stdout.split()
        return states == ["idle"] * len(self.nodes)

    def wait_for_nodes(self):
        wait_until("the nodes are idle", self.are_nodes_idle, look=self.log)

    def wait_for_nodes_to_answer(self):
        wait_until("the nodes answer", lambda: "*" not in self.call(["sinfo", "-h", "-N", "-o", "%t"]).stdout)

    def call(self, words, user=None, check=True, environment=None, cwd="/tmp", timeout=300, **more):
        identity = {"user": user, "group": user, "extra_groups": []} if user is not None else {}
        done = subprocess.run([str(word) for word in words], env=environment or self.environment, cwd=cwd, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False, **identity,
                              **more)
        if check and done.returncode:
            raise AssertionError(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}\n{self.log()}")
        return done

    def srun(self, *words, **more):
        return self.call(["srun", *words], **more)

    def sbatch(self, script, *words, **more):
        """Submits a script and returns the job's number."""
        path = self.directory / "jobs" / f"script-{time.monotonic_ns()}"
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
        out = self.call(["sbatch", "--parsable", "-o", f"{self.directory}/jobs/%j.out", *words, path], **more).stdout
        return int(out.strip().split(";")[0])

    def output(self, job):
        path = self.directory / "jobs" / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def job(self, job):
        """Returns the fields that Slurm lists for a job."""
        out = self.call(["scontrol", "show", "job", job, "-o"]).stdout
        return dict(word.split("=", 1) for word in out.split() if "=" in word)

    def comment(self, job):
        out = self.call(["scontrol", "show", "job", job]).stdout
        return next((line.strip()[8:] for line in out.splitlines() if line.strip().startswith("Comment=")), "")

    def wait_for(self, job, *states):
        return wait_until(f"job {job} is {' or '.join(states)}", lambda: self.job(job)["JobState"] in states,
                          look=lambda: self.call(["scontrol", "show", "job", job]).stdout + self.log())

    def wait_for_end(self, job):
        self.wait_for(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        return self.job(job)["JobState"]

    def wait_until_clean(self):
        wait_until("no vGPU is left", lambda: not any(node.vgpus() for node in self.nodes), look=self.log)

    def clean_up(self):
        """Removes the jobs and vGPUs that a failed test left, so that the next test can pass."""
        self.call(["scancel", "--signal=KILL", "--full", "--state=RUNNING"], check=False)
        self.call(["scancel", "-u", "root,nobody,daemon"], check=False)
        for node in self.nodes:
            if node.daemon.poll() is not None:
                node.start_daemon()
            if node.slurmd.poll() is not None:
                node.start_slurmd()
            for name in node.vgpus():
                node.virgate("rm", name, "--sim", "--force", check=False)

    def log(self):
        parts = []
        for path in sorted(self.directory.glob("*.log")) + sorted(self.directory.glob("*.out")):
            lines = path.read_text(errors="replace").splitlines()[-25:]
            parts += [f"--- {path.name}", *lines]
        return "\n".join(parts)

    def steps(self):
        """Returns the pids of the processes slurmstepd of this cluster."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    program = (entry / "comm").read_text().strip()
                    environment = (entry / "environ").read_bytes() if program == "slurmstepd" else b""
                    if f"SLURM_CONF={self.directory}/".encode() in environment:
                        found.append(int(entry.name))
        return found

    def end_jobs(self):
        with contextlib.suppress(Exception):
            self.call(["scancel", "--signal=KILL", "--full", "--user=root"], check=False, timeout=20)
            wait_until("all jobs end", lambda: not self.call(["squeue", "-h"], check=False).stdout.strip(), 20)

    def stop(self):
        controller = self.running.get("slurmctld")
        if controller and controller.poll() is None:
            self.end_jobs()
        for process in reversed(self.children):
            if process.poll() is None:
                process.terminate()
        for process in reversed(self.children):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.steps():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __exit__(self, _type=None, error=None, _trace=None):
        self.problem = self.describe_problem(error) if error else None
        self.stop()
        if not os.environ.get("VIRGATE_KEEP"):
            shutil.rmtree(self.directory, ignore_errors=True)
