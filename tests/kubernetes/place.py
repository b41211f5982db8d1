"""Provides a node with a kubelet that the test plays, and containers that are started as a container runtime does."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../exporter"))
from node import PATIENCE_S, run_tests  # noqa: E402
try:
    from kubelet import Kubelet, load_messages
except ImportError as error:
    print(f"skip {os.path.basename(sys.argv[0])}: {error}: install python3-grpcio and python3-protobuf\n"
          "0 passed, 0 failed, 1 skipped")
    sys.exit(77)

PROFILES = "[profile 2g]\nmemory = 2G\nshare = 40\n[profile 1g]\nmemory = 1G\n"


class Place:
    """A kubelet that the test plays and a plugin, on a node with Virgate's daemon."""

    messages = None  # the Python classes of the API's messages, generated from the .proto file

    def __init__(self, node, profiles=PROFILES, devices=1):
        self.node = node
        node.environment["VIRGATE_SIM"] = f"devices={devices},memory=4G,ctx=16M"
        self.directory = f"{node.directory}/kubelet"
        os.mkdir(self.directory)
        node.environment["VIRGATE_SYSTEM_CONFIG"] = f"{node.directory}/virgate.conf"
        self.write(profiles)
        node.virgate("devices")
        self.kubelet = Kubelet(Place.messages, self.directory)
        self.outputs = 0

    def write(self, profiles):
        with open(f"{self.node.directory}/virgate.conf", "w", encoding="utf-8") as file:
            file.write(profiles)

    def plugin(self, *words):
        self.outputs += 1
        with open(f"{self.node.directory}/plugin-{self.outputs}", "w", encoding="utf-8") as output:
            return self.node.start(f"{self.node.build}/integrations/kubernetes/virgate-device-plugin",
                                   "--kubelet-dir", self.directory, *words, stdout=output, stderr=output)

    def output(self):
        with open(f"{self.node.directory}/plugin-{self.outputs}", encoding="utf-8") as file:
            return file.read()

    def restart_kubelet(self):
        self.kubelet.stop()
        self.kubelet = Kubelet(Place.messages, self.directory)


@contextlib.contextmanager
def place_of(node, *arguments, **options):
    place = Place(node, *arguments, **options)
    try:
        yield place
    except BaseException:
        print(place.output() if place.outputs else "(no plugin ran)")
        raise
    finally:
        place.kubelet.stop()


class Container:
    """Does for a container what the kubelet and a container runtime do. The kubelet asks the plugin before the start.
    The runtime runs the hook of the CDI device while the container's first process exists."""

    def __init__(self, place, allocation):
        self.place, self.allocation = place, allocation
        self.bundle = tempfile.mkdtemp(dir=place.node.directory)
        self.process, self.error = None, ""

    def prepare(self):
        """Asks the plugin for permission to start, as the kubelet does before each start of a container."""
        vgpu, uuid = re.fullmatch("(.*)@(.*):.*", variables_of(self.allocation)["VIRGATE_ALLOCATION"]).groups()
        _, _, profile = self.allocation.cdi_devices[0].name.partition("profile:")
        self.place.kubelet.latest[f"virgate.dev/{profile}"].start_container(f"{uuid}/{vgpu.rpartition('.')[2]}")
        return self

    def start(self, code=0):
        return self.prepare().run_hook(code)

    def run_hook(self, code=0):
        environment = [f"{name}={value}" for name, value in variables_of(self.allocation).items()]
        with open(f"{self.bundle}/config.json", "w", encoding="utf-8") as file:
            json.dump({"root": {"path": "/"}, "process": {"env": environment, "user": {"uid": 0}}}, file)
        profile = self.allocation.cdi_devices[0].name.removeprefix("virgate.dev/vgpu=profile:")
        self.process = self.place.node.start("sleep", "100000")
        state = {"id": f"{self.process.pid:064d}", "pid": self.process.pid, "bundle": self.bundle}
        done = subprocess.run([f"{self.place.node.build}/cli/virgate", "cdi", "hook", "create", "--profile", profile,
                               "--runtime-dir", f"{self.place.node.directory}/run"], text=True, capture_output=True,
                              env=self.place.node.environment, input=json.dumps(state), timeout=PATIENCE_S, check=False)
        assert done.returncode == code, done
        self.error = done.stderr
        return self

    def end(self):
        self.process.kill()
        self.process.wait()


def variables_of(allocation):
    return {pair.key: pair.value for pair in allocation.envs}


def vgpus(node):
    return {one["name"]: one for one in json.loads(node.virgate("ps", "--json"))["vgpus"]}


def run_with_messages(module):
    """Runs the tests of a module. The arguments of the program are BUILD PROTO [WORD...]."""
    with tempfile.TemporaryDirectory(prefix="virgate-test-") as generated:
        Place.messages = load_messages(sys.argv[2], generated)
        run_tests(module, sys.argv[1], *sys.argv[3:])
