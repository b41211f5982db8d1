#!/usr/bin/env python3
"""test_podman.py VIRGATE TENANT SIM LOAD [WORD]: runs containers of podman inside vGPUs, by the CDI file that virgate
writes; with WORD, only the tests with this word in their names.

Runs as root, with runc and with crun, and as an unprivileged user. Each test has a mount namespace of its own, in which
/etc/cdi is a directory of the test, and the images and containers are in the test's directory. An image has the program
TENANT, bench/turn_load as LOAD, a shell and the libraries of this machine. With PODMAN_ROOTS=DIRECTORY it also runs
images made of the directories there, which debootstrap writes, with other versions of glibc. Exit status 77: podman
cannot run here.
"""
import ctypes
import json
import os
import pwd
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

VIRGATE, TENANT, LOAD = (os.path.abspath(sys.argv[i]) for i in (1, 2, 4))  # meson passes paths relative to the build
SIM = sys.argv[3]
LIMIT = 120  # seconds that one command may take
DEVICE = "virgate.dev/vgpu="


class CannotRun(Exception):
    """Containers cannot run here with this user and runtime."""


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


counts = {"passed": 0, "skipped": 0}
own_children, lock = set(), threading.Lock()


def run(words, environment, **options):
    with lock:
        child = subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 **options)
        own_children.add(child.pid)
    try:
        output, _ = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    return subprocess.CompletedProcess(words, child.returncode, output)


def call(words):
    result = run(words, None)
    assert result.returncode == 0, result


def reap_orphans():
    """Reaps the processes that podman leaves behind, which process 1 does not do on some machines. While conmon is a
    zombie, podman takes it for alive, and waits 20 s for the exit code of its container."""
    while True:
        time.sleep(0.05)
        with lock:
            with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
                orphans = [int(pid) for pid in file.read().split() if int(pid) not in own_children]
            for pid in orphans:
                os.waitpid(pid, os.WNOHANG)


def begin_reaping():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    threading.Thread(target=reap_orphans, daemon=True).start()


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("waited in vain until " + what)


def libraries_of(program):
    text = run(["ldd", program], None).stdout
    return re.findall(r"(/\S+)(?= \(0x)", text)


def make_root(directory):
    """Makes the root directory of an image: some programs of this machine, and the libraries that they need."""
    programs = [shutil.which(name) for name in ("sh", "env", "sleep", "cat", "id", "setpriv")]
    files = {path: path for path in programs if path}
    for path in [*files, *SIM.split(":"), LOAD]:
        files.update({library: library for library in libraries_of(path) if "/virgate" not in library
                      and not library.startswith(os.path.dirname(os.path.dirname(VIRGATE)))})
    os.makedirs(directory + "/usr/bin")
    os.symlink("usr/bin", directory + "/bin")
    for path in files:
        target = directory + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(path, target)
    for name in ("app", "etc", "tmp", "proc", "sys", "dev", "run"):
        os.makedirs(os.path.join(directory, name), exist_ok=True)
    shutil.copy(TENANT, directory + "/app/tenant")
    shutil.copy(LOAD, directory + "/app/load")
    with open(directory + "/etc/passwd", "w") as file:
        file.write("root:x:0:0::/:/bin/sh\nguest:x:1000:1000::/:/bin/sh\n")


class Place:
    """Provides podman, a daemon and a simulated GPU for one user. Other users have others."""

    def __init__(self, top, user, runtime, image):
        self.top = os.path.join(top, f"{user}-{runtime}")
        self.user, self.runtime, self.entry = user, runtime, pwd.getpwnam(user)
        for name in ("", "run", "state", "sim", "cdi", "xdg", "home", "system"):
            os.makedirs(os.path.join(self.top, name), mode=0o700, exist_ok=True)
        os.chmod(self.top, 0o755)
        os.chmod(self.path("cdi"), 0o755)
        os.chmod(self.path("system"), 0o755)
        with open(self.path("storage.conf"), "w") as file:
            file.write(f'[storage]\ndriver = "{"overlay" if user == "root" else "vfs"}"\n'
                       f'runroot = "{self.path("runroot")}"\ngraphroot = "{self.path("graph")}"\n')
        with open(self.path("virgate.conf"), "w") as file:
            file.write("[profile small]\nmemory = 128M\n")
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.path("home"), "XDG_RUNTIME_DIR": self.path("xdg"),
            "VIRGATE_RUNTIME_DIR": self.path("run"), "VIRGATE_STATE_DIR": self.path("state"),
            "VIRGATE_SIM": "memory=2G,slice=2150us,sms=2", "VIRGATE_SIM_DIR": self.path("sim"),
            "VIRGATE_SYSTEM_CONFIG": self.path("virgate.conf"), "CONTAINERS_STORAGE_CONF": self.path("storage.conf")}
        if user != "root":
            call(["chown", "-R", user, self.top])
            call(["chown", "root", self.path("sim"), self.path("system")])
        self.share_simulation()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.limits = ["--ulimit", f"nofile={min(hard, 4096)}:{min(hard, 4096)}", "--ulimit", "nproc=2048:2048"]
        self.image = image
        self.drop = []
        if user != "root":
            self.drop = ["setpriv", "--reuid", user, "--regid", str(self.entry.pw_gid), "--init-groups"]

    def share_simulation(self):
        """Makes the simulated GPU usable for all users of a container. Its directory belongs to root, and root has
        created its files."""
        os.chmod(self.path("sim"), 0o1711)
        own = {**self.environment, "VIRGATE_RUNTIME_DIR": self.path("root-run"),
               "VIRGATE_STATE_DIR": self.path("root-state")}
        for verb in ("devices", "shutdown"):
            result = run([VIRGATE, verb], own)
            assert result.returncode == 0, result.stdout

    def path(self, name):
        return os.path.join(self.top, name)

    def virgate(self, *words):
        return run([*self.drop, VIRGATE, *words], self.environment, cwd=self.top)

    def check(self, *words):
        result = self.virgate(*words)
        assert result.returncode == 0, (words, result.stdout)
        return result.stdout

    def generate(self, *words):
        output = self.check("cdi", "generate", *words)
        with open(self.path("cdi/virgate.json"), "w") as file:
            file.write(output)

    @property
    def enter(self):
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt"]

    def podman(self, *words):
        return run([*self.enter, *self.drop, "podman", "--runtime", self.runtime, *words], self.environment,
                   cwd=self.top)

    def start(self):
        """Starts a process in a new mount namespace, in which all commands of podman then run."""
        # crun refuses a machine that has both versions of control groups mounted.
        script = ("umount /sys/fs/cgroup/unified 2>/dev/null; mkdir -p /etc/cdi;"
                  " mount --bind \"$1\" /etc/cdi && mount --bind \"$2\" /mnt || exit 1; echo ready;"
                  " exec sleep infinity")
        with lock:
            self.holder = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", self.path("cdi"),
                                            self.path("system")], stdout=subprocess.PIPE, text=True)
            own_children.add(self.holder.pid)
        if self.holder.stdout.readline() != "ready\n":
            raise CannotRun("no mount namespace with another /etc/cdi can be made here")
        result = self.podman("import", self.image, "image")
        if result.returncode:
            raise CannotRun(f"podman of {self.user} cannot import an image here: {result.stdout.strip()[-300:]}")
        result = self.podman("run", "--rm", *self.limits, "--net=none", "image", "/bin/sh", "-c", "echo works")
        if "works" not in result.stdout:
            raise CannotRun(f"podman of {self.user} cannot run a container with {self.runtime} here: "
                            f"{result.stdout.strip()[-300:]}")

    def stop(self):
        self.podman("rm", "-f", "-a", "-t", "0")
        self.virgate("shutdown")
        pause = self.path("xdg/libpod/tmp/pause.pid")  # this process keeps the user namespace of a podman without root
        if os.path.exists(pause):
            with open(pause) as file:
                os.kill(int(file.read()), signal.SIGKILL)
        self.holder.kill()
        self.holder.wait()

    def run(self, device, *words, options=(), image="image"):
        return self.podman("run", "--rm", *self.limits, "--net=none", "--device", DEVICE + device, *options, image,
                           *words)

    def begin(self, device, *words, options=(), name="one"):
        self.podman("rm", "-f", "-t", "0", name)
        result = self.run(device, *words, options=["-d", "--name", name, *options])
        assert result.returncode == 0, result.stdout
        return result.stdout.strip().splitlines()[-1]

    def listing(self):
        return {vgpu["name"]: vgpu for vgpu in json.loads(self.check("ps", "--json"))["vgpus"]}

    def tenants(self, name):
        return self.listing().get(name, {}).get("tenants") or []


def check_quota(place, device, limit, **options):
    """Runs the program until the quota refuses an allocation. The program's context takes 16 MiB of the quota."""
    result = place.run(device, "/app/tenant", **options)
    assert f"{limit - 16} MiB, result 2" in result.stdout, (device, options, result.stdout)


def test_named_vgpu_holds_its_quota(place):
    check_quota(place, "a", 256)
    check_quota(place, "a", 256, options=["--read-only"])
    check_quota(place, "a", 256, options=["--pid=host"])


def test_tenant_is_listed_with_its_container(place):
    identity = place.begin("a", "/app/tenant", "3", "hold")
    tenant = wait_for("the tenant is listed", lambda: [one for one in place.tenants("a") if one["container"]
                                                       and one["charged"] == 64 << 20])[0]
    assert tenant["container"] == identity and tenant["image"].startswith("localhost/image"), tenant
    assert tenant["outside"] is False, tenant
    table = place.check("ps")
    assert f"in {identity[:12]} localhost/image" in table, table
    place.podman("kill", "one")
    wait_for("the memory is refunded", lambda: place.listing()["a"]["charged"] == 0)


def test_each_container_of_a_profile_has_its_own_vgpu(place):
    check_quota(place, "profile:small", 128)
    first = place.begin("profile:small", "/app/tenant", "3", "hold", name="one")
    second = place.begin("profile:small", "/app/tenant", "4", "hold", name="two")
    names = ["c-" + first[:12], "c-" + second[:12]]
    charged = [64 << 20, 80 << 20]
    wait_for("both are charged", lambda: [place.listing().get(name, {}).get("charged") for name in names] == charged)
    place.podman("kill", "one")
    wait_for("its vGPU is removed", lambda: names[0] not in place.listing())
    assert place.listing()[names[1]]["charged"] == charged[1]
    # Kills the first process of the container with SIGKILL, as the OOM killer does.
    os.kill(place.tenants(names[1])[0]["pid"], signal.SIGKILL)
    wait_for("its vGPU is removed", lambda: names[1] not in place.listing())


def test_out_of_memory_kill_leaves_nothing(place):
    limit = 96 << 20
    options = [*place.limits, "--net=none", "--memory", str(limit), "--memory-swap", str(limit)]
    files = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
    result = place.podman("run", "--rm", *options, "image", "/bin/sh", "-c", files)
    if result.stdout.strip() != str(limit):
        raise CannotRun(f"a limit for the memory of a container: {result.stdout.strip()[-300:]}")
    # The shell becomes the largest process. It is process 1 of the container, so all others end with it.
    script = "/app/tenant 3 hold & until [ -e /tmp/go ]; do sleep 0.1; done; x=x; while :; do x=$x$x; done"
    for device in ("a", "profile:small"):
        result = place.podman("run", "-d", "--name", "one", "--device", DEVICE + device, *options, "image", "/bin/sh",
                              "-c", script)
        assert result.returncode == 0, result
        name = "a" if device == "a" else "c-" + result.stdout.strip().splitlines()[-1][:12]
        wait_for("the program has its memory", lambda: place.listing().get(name, {}).get("charged") == 64 << 20)
        place.podman("exec", "one", "/bin/sh", "-c", ": >/tmp/go")
        state = "{{.State.Running}} {{.State.ExitCode}}"  # podman 4.3 does not notice the reason
        wait_for("the kernel kills the container",
                 lambda: place.podman("inspect", "-f", state, "one").stdout.strip() == "false 137")
        wait_for("nothing is left", lambda: (place.listing().get(name) or {"charged": 0})["charged"] == 0)
        wait_for("only a named vGPU is left", lambda: (name in place.listing()) == (device == "a"))
        place.podman("rm", "-f", "one")


def test_memory_leaves_the_gpu_and_returns(place):
    place.check("create", "ev", "--memory", "256M", "--evictable", "--fixed", "64M")
    place.generate()
    identity = place.begin("ev", "/app/tenant", "3", "hold")
    wait_for("its memory is on the GPU", lambda: [one for one in place.tenants("ev") if one["charged"] == 64 << 20])
    place.check("suspend", "ev")
    tenant = place.tenants("ev")[0]
    assert tenant["eviction"]["host"] == 48 << 20 and tenant["container"] == identity, tenant
    place.check("resume", "ev")
    tenant = place.tenants("ev")[0]
    assert tenant["eviction"]["host"] == 0 and tenant["charged"] == 64 << 20, tenant
    place.podman("kill", "one")
    wait_for("the memory is refunded", lambda: not place.tenants("ev"))
    place.check("rm", "ev")
    place.generate()


def test_compute_shares_hold(place):
    names = ("s30", "s70")
    try:
        for name in names:
            place.check("create", name, "--memory", "128M", "--share", name[1:])
        place.generate()
        for name in names:
            place.begin(name, "/app/load", "train", "1000", "1", options=["--env", "VIRGATE_SIM_COST=kernel=200us"],
                        name=name)
        check_parts(place, names, (30, 70))
    finally:
        for name in names:
            place.podman("rm", "-f", "-t", "0", name)
            place.virgate("rm", "--force", name)
        place.generate()


def check_parts(place, names, shares):
    """Waits until the parts of the GPU's time that the vGPUs had in the last 10 s are their shares. On a busy
    machine the simulated GPU misses them by up to 8 %."""
    def parts():
        listing = place.listing()
        return [(listing[name]["turns"] or {}).get("recent") or 0 for name in names]

    try:
        wait_for("the parts of the last 10 s are the shares",
                 lambda: all(abs(part - share) <= 10 for part, share in zip(parts(), shares)))
    except AssertionError as error:
        raise AssertionError(f"{error} {shares}; last: {parts()}") from error


def test_other_users_in_the_container_enter(place):
    check_quota(place, "a", 256, options=["--user", "1000"])
    check_quota(place, "profile:small", 128, options=["--user", "1000"])


def test_program_without_the_library_is_outside(place):
    words = ("/bin/sh", "-c", "unset LD_PRELOAD; LD_LIBRARY_PATH=/run/virgate-vgpu/lib/sim exec /app/tenant 3 hold")
    identity = place.begin("a", *words)
    tenant = wait_for("it is listed", lambda: [one for one in place.tenants("a") if one["outside"]])[0]
    assert tenant["container"] == identity and tenant["charged"] == 0, tenant
    assert "(outside)" in place.check("ps")
    place.podman("rm", "-f", "-t", "0", "one")
    wait_for("it is gone", lambda: not place.tenants("a"))
    place.generate("--kill-outside")
    result = place.run("a", *words)  # the program waits until it is killed, so this returns only if it was killed
    assert result.returncode == 137, result
    place.generate()


def start_system_daemon(place):
    """Starts root's daemon at /mnt, a directory of the place. Returns it, and the environment for its clients."""
    environment = {**place.environment, "VIRGATE_RUNTIME_DIR": "/mnt", "VIRGATE_STATE_DIR": place.path("system-state")}
    program = os.path.join(os.path.dirname(os.path.dirname(VIRGATE)), "daemon/virgated")
    ready, write = os.pipe()
    with lock:
        child = subprocess.Popen([*place.enter, program, "--system", "--ready-fd", str(write)], env=environment,
                                 pass_fds=[write])
        own_children.add(child.pid)
    os.close(write)
    with os.fdopen(ready, "rb") as file:
        assert file.read(1) == b"1", "root's daemon does not start"
    return child, environment


def test_another_users_vgpu_is_refused(place):
    if place.user == "root":
        raise CannotRun("podman without root")
    own = place.environment
    daemon, place.environment = start_system_daemon(place)
    try:
        for words in (["create", "roots", "--memory", "256M"],
                      ["cdi", "generate", "--output", place.path("cdi/virgate.json")]):
            result = run([*place.enter, VIRGATE, *words], place.environment)
            assert result.returncode == 0, result
        result = place.run("roots", "/app/tenant")
        sentence = "vGPU roots: only its owner (root) and root may run programs in it"
        assert result.returncode and sentence in result.stdout, result
        result = run([*place.enter, VIRGATE, "events"], place.environment)
        assert "denied" in result.stdout and sentence in result.stdout, result
        check_quota(place, "profile:small", 128)
    finally:
        place.environment = own
        daemon.terminate()
        daemon.wait()
        place.generate()


def test_stale_file_is_refused(place):
    place.check("create", "gone", "--memory", "64M")
    place.generate()
    place.check("rm", "gone")
    result = place.run("gone", "/app/tenant")
    assert result.returncode and "virgate.dev/vgpu=gone is of a vGPU that exists no longer" in result.stdout, result
    assert "virgate cdi generate" in result.stdout, result
    place.generate()


def test_unknown_profile_is_refused(place):
    with open(place.path("virgate.conf")) as file:
        before = file.read()
    with open(place.path("virgate.conf"), "w") as file:
        file.write("")
    result = place.run("profile:small", "/app/tenant")
    with open(place.path("virgate.conf"), "w") as file:
        file.write(before)
    assert result.returncode and "is of a profile that virgate.conf has no longer" in result.stdout, result


def test_profile_that_does_not_fit_is_refused(place):
    place.check("create", "large", "--memory", "1700M")
    result = place.run("profile:small", "/app/tenant")
    place.check("rm", "large")
    assert result.returncode and "asked for 128.0 MiB" in result.stdout, result
    assert not [name for name in place.listing() if name.startswith("c-")]


def test_musl_is_refused(place):
    root = place.path("musl")
    os.makedirs(root + "/lib")
    with open(root + "/lib/ld-musl-x86_64.so.1", "w"):
        pass
    call(["tar", "-C", root, "-cf", root + ".tar", "."])
    os.chmod(root + ".tar", 0o644)
    result = place.podman("import", root + ".tar", "musl")
    assert result.returncode == 0, result
    result = place.run("a", "/bin/true", image="musl")
    assert result.returncode and "has the C library musl" in result.stdout, result


# What no program in the images needs. Without it, an image of debootstrap is imported in a tenth of the time.
LEFT_OUT = ["boot", "debs", "dev/*", "home", "mnt/*", "proc/*", "root/*", "sys/*", "tmp/*", "usr/include",
            "usr/lib/python3*", "usr/share", "var/*"]


def test_other_versions_of_glibc(place):
    roots = os.environ.get("PODMAN_ROOTS", "")
    names = [name for name in sorted(os.listdir(roots)) if os.path.isdir(os.path.join(roots, name, "etc"))]
    for name in names:
        archive = place.path(name + ".tar")
        excluded = ["--exclude=./" + path for path in LEFT_OUT]
        call(["tar", "-C", os.path.join(roots, name), *excluded, "-cf", archive, "."])
        call(["tar", "-C", os.path.dirname(TENANT), "--transform=s,.*,app/tenant,", "-rf", archive,
                        os.path.basename(TENANT)])
        os.chmod(archive, 0o644)
        result = place.podman("import", archive, name)
        os.unlink(archive)
        assert result.returncode == 0, result.stdout
        check_quota(place, "a", 256, image=name)
        result = place.run("a", "ldd", "--version", image=name)
        print("ok", place.user, place.runtime, name, result.stdout.splitlines()[0], flush=True)
        place.podman("rmi", "-f", name)
    assert names, f"no roots of debootstrap in {roots}"


def tests():
    return [(name, value) for name, value in globals().items() if name.startswith("test_")]


def run_tests(place):
    failed = 0
    try:
        place.start()
        place.check("create", "a", "--memory", "256M")
        place.generate()
        for name, test in tests():
            if len(sys.argv) > 5 and sys.argv[5] not in name:
                continue
            if test is test_other_versions_of_glibc and not os.environ.get("PODMAN_ROOTS"):
                counts["skipped"] += 1
                print(f"skip {place.user} {place.runtime} {name}: PODMAN_ROOTS names no roots of debootstrap")
                continue
            try:
                test(place)
                counts["passed"] += 1
                print(f"ok {place.user} {place.runtime} {name}", flush=True)
            except CannotRun as why:
                counts["skipped"] += 1
                print(f"skip {place.user} {place.runtime} {name}: needs {why}", flush=True)
            except Exception as error:  # also a timeout
                failed += 1
                print(f"FAIL {place.user} {place.runtime} {name}: {type(error).__name__} {error}", flush=True)
                place.podman("rm", "-f", "-a", "-t", "0")
    except CannotRun as why:  # by start()
        for name, _ in tests():
            counts["skipped"] += 1
            print(f"skip {place.user} {place.runtime} {name}: {why}", flush=True)
    finally:
        place.stop()
    return failed


def find_user():
    """Returns a user who has subordinate ids, or None if no user has."""
    try:
        with open("/etc/subuid") as file:
            names = [line.split(":")[0] for line in file]
        return next((name for name in names if name != "root" and pwd.getpwnam(name)), None)
    except (OSError, KeyError):
        return None


def main():
    if os.geteuid() != 0:
        skip("this test needs root: it makes a mount namespace with another /etc/cdi")
    for program in ("podman", "unshare", "nsenter", "setpriv"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    places = [("root", name) for name in ("runc", "crun") if shutil.which(name)]
    if not places:
        skip("neither runc nor crun is installed")
    user = find_user()
    if user:
        places.append((user, places[0][1]))
    only = os.environ.get("PODMAN_PLACE")
    top = tempfile.mkdtemp(prefix="virgate-podman-")
    os.chmod(top, 0o755)
    try:
        os.makedirs(top + "/root")
        make_root(top + "/root")
        image = top + "/image.tar"
        call(["tar", "-C", top + "/root", "-cf", image, "."])
        begin_reaping()
        failed = sum(run_tests(Place(top, *place, image)) for place in places
                     if not only or only == "-".join(place))
    finally:
        run(["rm", "-rf", top], None)
    print(f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped")
    sys.exit(1 if failed else 0 if counts["passed"] else 77)


main()
