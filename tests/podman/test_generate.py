#!/usr/bin/env python3
"""test_generate.py VIRGATE: checks the file that `virgate cdi generate` writes against the rules of the CDI
specification."""
import json
import os
import re
import subprocess
import sys
import tempfile

VIRGATE = sys.argv[1]
EDITS = {"env", "deviceNodes", "hooks", "mounts"}
HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
counts = {"passed": 0, "failed": 0}


def virgate(environment, *words):
    return subprocess.run([VIRGATE, *words], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)


def check(name, condition, shown=""):
    counts["passed" if condition else "failed"] += 1
    if not condition:
        print("FAILED", name, shown)


def check_edits(where, edits):
    check(where + ": known fields", set(edits) <= EDITS and edits, edits)
    for variable in edits.get("env", []):
        check(where + ": variable", re.fullmatch(r"[A-Z_]+=[^\0]*", variable), variable)
    for mount in edits.get("mounts", []):
        check(where + ": mount", set(mount) <= {"hostPath", "containerPath", "options", "type"}
              and mount["containerPath"].startswith("/") and mount["hostPath"], mount)
        if mount.get("type") != "tmpfs":
            check(where + ": the file is here", os.path.exists(mount["hostPath"]), mount)
    for hook in edits.get("hooks", []):
        check(where + ": hook", set(hook) <= {"hookName", "path", "args", "env", "timeout"}
              and hook["hookName"] in HOOKS and os.access(hook["path"], os.X_OK), hook)


def check_specification(text, names, version):
    specification = json.loads(text)
    check("fields", set(specification) == {"cdiVersion", "kind", "devices", "containerEdits"}, specification.keys())
    check("version", specification["cdiVersion"] == version, specification["cdiVersion"])
    check("kind", specification["kind"] == "virgate.dev/vgpu")
    check("names", sorted(device["name"] for device in specification["devices"]) == sorted(names), text)
    check_edits("all devices", specification["containerEdits"])
    for device in specification["devices"]:
        check("name", re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", device["name"]), device["name"])
        check("device", set(device) == {"name", "containerEdits"}, device)
        check_edits(device["name"], device["containerEdits"])


def run_checks(environment, directory):
    refused = virgate(environment, "cdi", "generate")
    check("nothing to give", refused.returncode == 1 and "nothing to give to a container" in refused.stderr, refused)
    for name in ("one", "two", "odd-"):
        virgate(environment, "create", name, "--memory", "64M")
    with open(environment["VIRGATE_SYSTEM_CONFIG"], "w") as file:
        file.write("[profile small]\nmemory = 128M\n")
    result = virgate(environment, "cdi", "generate")
    check("a name that CDI does not allow", '"odd-" is left out' in result.stderr, result.stderr)
    check_specification(result.stdout, ["one", "two", "profile:small"], "0.4.0")
    virgate(environment, "create", "3d", "--memory", "64M")
    path = os.path.join(directory, "written.json")
    result = virgate(environment, "cdi", "generate", "3d", "profile:small", "--output", path)
    check("written", result.returncode == 0 and not result.stdout, result)
    with open(path) as file:
        check_specification(file.read(), ["3d", "profile:small"], "0.5.0")
    refused = virgate(environment, "cdi", "generate", "none")
    check("an unknown name", refused.returncode == 1 and '"none"' in refused.stderr, refused)
    refused = virgate(environment, "cdi", "generate", "--output", "/none/file")
    check("no such directory", refused.returncode == 1 and "/none/file cannot be written" in refused.stderr, refused)
    refused = subprocess.run([VIRGATE, "cdi", "hook", "create", "--vgpu", "one", "--runtime-dir", "/"], text=True,
                             env=environment, input="{}", stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    check("a hook without a state", refused.returncode == 1 and "no state of a container" in refused.stderr, refused)


def check_warning(environment, directory):
    """Checks that `virgate run` warns if its program is a container engine. The environment of the vGPU does not reach
    the engine's containers."""
    engine = os.path.join(directory, "podman")
    with open(engine, "w") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(engine, 0o755)
    run = ("run", "--memory", "64M", "--", engine)
    for words, warns in ((("run", "image"), True), (("ps",), False),
                         (("run", "--device", "virgate.dev/vgpu=one", "image"), False)):
        result = virgate(environment, *run, *words)
        check("warning of a container", result.returncode == 0 and warns == ("is outside this vGPU" in result.stderr),
              result)


def main():
    with tempfile.TemporaryDirectory(prefix="virgate-cdi-") as directory:
        environment = {"PATH": os.environ["PATH"], "HOME": directory, "VIRGATE_SIM": "memory=1G",
                       "VIRGATE_SYSTEM_CONFIG": os.path.join(directory, "virgate.conf"),
                       "VIRGATE_RUNTIME_DIR": os.path.join(directory, "run"),
                       "VIRGATE_STATE_DIR": os.path.join(directory, "state"),
                       "VIRGATE_SIM_DIR": os.path.join(directory, "sim")}
        environment |= {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        try:
            run_checks(environment, directory)
            check_warning(environment, directory)
        finally:
            virgate(environment, "shutdown")
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    sys.exit(1 if counts["failed"] else 0)


main()
