#!/usr/bin/env python3
"""test_prometheus.py BUILD: lets a real Prometheus read the exporter, and answer every query of the alert rules and the
dashboard. Checks the rules and the settings with promtool."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
from node import PATIENCE_S, Skipped, run_tests, wait_for  # noqa: E402

DOCUMENTS = f"{os.path.dirname(os.path.abspath(__file__))}/../../docs/monitoring"
# These metrics have no sample in this test, because no vGPU takes turns, is evictable or is out of order.
EMPTY = ("share_held", "gpu_seconds", "waiting_seconds", "turns_total", "host_bytes")


def tool(name):
    path = shutil.which(name)
    if not path:
        raise Skipped(f"needs {name} (package prometheus)")
    return path


def promtool(*words):
    done = subprocess.run([tool("promtool"), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def rules():
    text = open(f"{DOCUMENTS}/alerts.yml", encoding="utf-8").read()
    return [match[1].strip() for match in re.finditer(r"^        expr: (?:>-\n +)?(.*)$", text, re.M)]


def panels():
    with open(f"{DOCUMENTS}/dashboard.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [query.replace("$vgpu", ".*") for query in queries]


def test_promtool_accepts_rules_and_settings(node):
    promtool("check", "rules", f"{DOCUMENTS}/alerts.yml")
    promtool("check", "config", f"{DOCUMENTS}/prometheus.yml")


def test_every_query_is_answered(node):
    node.virgate("create", "train", "--memory", "512M", "--share", "30", "--device", "0")
    subprocess.run([f"{node.build}/cli/virgate", "run", "--vgpu", "train", f"{node.build}/examples/grow"],
                   env=node.environment, capture_output=True, timeout=PATIENCE_S, check=False)
    _, where = node.exporter("--listen", "127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = open(f"{DOCUMENTS}/prometheus.yml", encoding="utf-8").read()
    settings = settings.replace("127.0.0.1:9844", re.search(r"//([^/]*)", where)[1]).replace("15s", "1s")
    for name, text in (("prometheus.yml", settings),
                       ("alerts.yml", open(f"{DOCUMENTS}/alerts.yml", encoding="utf-8").read())):
        with open(f"{node.directory}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    node.start(tool("prometheus"), f"--config.file={node.directory}/prometheus.yml",
               f"--storage.tsdb.path={node.directory}/data", f"--web.listen-address=127.0.0.1:{port}",
               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(text):
        return ask("query?query=" + urllib.parse.quote(text))["result"]

    targets = wait_for(lambda: [one for one in (ask("targets") or {"activeTargets": []})["activeTargets"]
                                if one["health"] != "unknown"], "a scrape")
    assert targets[0]["health"] == "up", targets
    wait_for(lambda: query("count_over_time(virgate_up[1m]) >= 3"), "three scrapes")
    assert query("virgate_vgpu_memory_limit_bytes{vgpu='train'}")[0]["value"][1] == str(512 << 20)
    assert float(query("virgate_vgpu_refusals_total{vgpu='train'}")[0]["value"][1]) >= 1
    names = set(ask("label/__name__/values"))
    known = set(re.findall(r"^# TYPE (\w+)", node.virgate("metrics"), re.M))
    assert len(panels()) > 15 and len(rules()) == 10, (panels(), rules())
    for text in panels() + rules():
        used = set(re.findall(r"\b(virgate_\w+)", text))
        assert used or "up{" in text, text
        assert used <= known, (text, used - known)
        assert not any(word in text for word in EMPTY) or used, text
        result = query(text)
        if text in panels() and not any(word in text for word in EMPTY):
            assert result and used <= names, text
    loaded = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
    wait_for(lambda: all(rule["health"] == "ok" for group in ask("rules")["groups"] for rule in group["rules"]),
             "the evaluation of the rules")
    assert len(loaded) == len(rules())


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
