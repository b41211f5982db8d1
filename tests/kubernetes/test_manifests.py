#!/usr/bin/python3
"""test_manifests.py DIRECTORY: checks the manifests in DIRECTORY. Their types must be known to the Kubernetes API, and
the manifests must fit together."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

MODELS = "kubernetes-models"
CHECK = """
const fs = require("fs");
const kinds = {DaemonSet: "apps/v1/DaemonSet", Pod: "v1/Pod"};
for (const object of JSON.parse(fs.readFileSync(0))) {
	const model = require("kubernetes-models/" + kinds[object.kind])[object.kind];
	try { new model(object).validate(); console.log("ok"); }
	catch (error) { console.log(error.message.replace(/\\n/g, " ")); }
}
"""


def skip(reason):
    print(f"skip manifests: {reason}\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)


try:
    import yaml
except ImportError:
    skip("needs python3-yaml")


def read(directory, name):
    with open(f"{directory}/{name}", encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def find_models():
    """Returns a directory in which node.js finds the models of the Kubernetes API. Skips the test if the
    models, which come from a registry, are missing."""
    if not shutil.which("node") or not shutil.which("npm"):
        skip("needs node.js and npm, for the types of the Kubernetes API")
    directory = os.environ.get("KUBERNETES_MODELS") or tempfile.mkdtemp(prefix="virgate-test-")
    if not os.path.isdir(f"{directory}/node_modules/{MODELS}"):
        done = subprocess.run(["npm", "install", "--prefix", directory, "--no-audit", "--no-fund", MODELS],
                              capture_output=True, text=True, check=False, timeout=240)
        if done.returncode:
            shutil.rmtree(directory, ignore_errors=True)
            skip(f"npm cannot install {MODELS}")
    return directory


def validate(models, objects):
    done = subprocess.run(["node", "-e", CHECK], cwd=models, input=json.dumps(objects), capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check_together(daemon_set, pod):
    """Checks what the types of the API cannot express: that the manifests fit together."""
    template = daemon_set["spec"]["template"]
    assert template["metadata"]["labels"].items() >= daemon_set["spec"]["selector"]["matchLabels"].items()
    volumes = {volume["name"] for volume in template["spec"]["volumes"]}
    for container in template["spec"]["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert any(name.startswith("virgate.dev/") and count in (1, "1") for name, count in limits.items()), limits


def main():
    directory = sys.argv[1]
    objects = read(directory, "daemonset.yaml") + read(directory, "pod.yaml")
    assert [one["kind"] for one in objects] == ["DaemonSet", "Pod"]
    check_together(*objects)
    models = find_models()
    try:
        assert validate(models, objects) == ["ok", "ok"], validate(models, objects)
        objects[0]["spec"]["template"]["spec"]["containers"][0]["image"] = 7
        objects[1]["spec"]["containers"] = {}
        assert "ok" not in validate(models, objects), "wrong manifests are accepted"
    finally:
        if not os.environ.get("KUBERNETES_MODELS"):
            shutil.rmtree(models, ignore_errors=True)
    print("3 passed, 0 failed, 0 skipped")


main()
