#!/usr/bin/env python3
"""test_page.py BUILD [WORD...]: reads the page of virgate-exporter and its JSON. Runs only the tests whose names
contain a WORD, if any is given."""

import base64
import gzip
import http.client
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
from node import PATIENCE_S, run_tests, wait_for  # noqa: E402

TOKEN = "a-token-of-the-test-0123456789"
FIRST_VIEW_MOST = 300 << 10


def get(where, path, password=None, method="GET", **more):
    """Requests a path of the exporter. Returns the status, the headers and the body of the answer."""
    port = int(re.match(r"http://127\.0\.0\.1:(\d+)", where)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    headers = {"Accept-Encoding": "gzip"} | {name.replace("_", "-"): text for name, text in more.items()}
    if password is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"any:{password}".encode()).decode()
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.headers["Content-Encoding"] == "gzip" and body:
        body = gzip.decompress(body)
    return answer.status, answer.headers, body.decode()


def start(node):
    file = f"{node.directory}/token"
    with open(file, "w", encoding="ascii") as opened:
        opened.write(TOKEN)
    os.chmod(file, 0o600)
    return node.exporter("--listen", "127.0.0.1:0", "--token-file", file)[1]


def run_hostile(node):
    """Starts a program in the vGPU `train`. The name of the program is an HTML element."""
    name = f"{node.directory}/<b>&\"x"
    shutil.copy(f"{node.build}/examples/grow", name)
    node.virgate("create", "train", "--memory", "512M", "--share", "30")
    node.start(f"{node.build}/cli/virgate", "run", "--vgpu", "train", "--", name, "--chunk", "64M", "--most", "64M",
               "--hold", "10000", "--no-touch", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: "80.0 MiB" in node.virgate("ps", "train"), "64 MiB in train")


def contend(node):
    """Starts two programs that share GPU 0."""
    # so that each program alone keeps the GPU busy for more than half of the time
    node.environment["VIRGATE_SIM"] += ",slice=2150us,sms=2"
    node.environment["VIRGATE_SIM_COST"] = "device=512M"
    programs = []
    for vgpu, share in (("small", "25"), ("large", "75")):
        node.virgate("create", vgpu, "--memory", "512M", "--share", share, "--device", "0")
        programs.append(node.start(f"{node.build}/cli/virgate", "run", "--vgpu", vgpu,
                                   f"{node.build}/tests/exporter/trace_load", "1000", stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE))
        assert programs[-1].stdout.readline() == "ready\n"
    wait_for(lambda: moved_on(node), "turns")
    return programs


def contend_with_job(node):
    """Starts a program in the vGPU `small` on GPU 0, and one in the job `job` on both GPUs."""
    node.environment["VIRGATE_SIM"] += ",slice=2150us,sms=2"
    node.environment["VIRGATE_SIM_COST"] = "device=512M"
    node.virgate("create", "small", "--memory", "512M", "--share", "50", "--device", "0")
    job = ("--gpus", "2", "--memory", "512M", "--share", "50", "--name", "job")
    for words in (("--vgpu", "small"), job):
        program = node.start(f"{node.build}/cli/virgate", "run", *words, f"{node.build}/tests/exporter/trace_load",
                             "1000", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.stdout.readline() == "ready\n"


def moved_on(node):
    """Returns whether both vGPUs had turns since the last call."""
    turns = {one["name"]: one["turns"]["turns"] for one in json.loads(node.virgate("ps", "--json"))["vgpus"]
             if one["turns"]}
    before, node.turns = getattr(node, "turns", {}), turns
    return len(turns) == 2 and all(turns[name] > before.get(name, turns[name]) for name in turns)


def ask_daemon(node, request):
    """Sends a request to the daemon, and returns the answer."""
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(f"{node.directory}/run/virgated.sock")
        connection.send(struct.pack("=4sHHII", b"VGT1", 1, 2, len(text), 0) + text)
        parts, more = [], True
        while more:
            packet = connection.recv(1 << 17)
            more = struct.unpack("=4sHHII", packet[:16])[4] & 1
            parts.append(packet[16:])
    return json.loads(b"".join(parts))


def test_first_view_is_small_and_local(node):
    node.virgate("create", "train", "--memory", "1G")
    where = start(node)
    status, headers, body = get(where, "/")
    assert status == 200 and "default-src 'self'" in headers["Content-Security-Policy"]
    names = re.findall(r'(?:src|href)="([^"#][^"]*)"', body)
    assert all(name.startswith("/") and not name.startswith("//") for name in names), names
    loaded = [name for name in names if "." in name] + ["/charts.js", "/timeline.js"]
    assert len(loaded) == 6, loaded
    total = len(body)
    for name in loaded:
        status, headers, text = get(where, name)
        assert status == 200 and headers["Content-Encoding"] == "gzip", name
        assert not re.search(r"(src|href|import|from|fetch)[ =(]+.?(https?:)?//", text), name
        total += int(headers["Content-Length"])
        assert get(where, name, Accept_Encoding="identity")[0] == 406, name
        assert get(where, name, Accept_Encoding="gzip, br")[0] == 200, name
    total += sum(len(get(where, path)[2]) for path in ("/api/history", "/api/events"))
    assert total < FIRST_VIEW_MOST, total  # test_page_parts.c checks the same limit for a node with many vGPUs
    assert not re.search(r" style=| on\w+=|<script>", body)


def test_nothing_can_be_changed(node):
    node.virgate("create", "train", "--memory", "1G")
    where = start(node)
    for path in ("/", "/full", "/metrics", "/api/overview", "/api/turns", "/page.js", "/nonesuch"):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            status, headers, _ = get(where, path, TOKEN, method)
            assert status == 405 and headers["Allow"] == "GET, HEAD", (path, method, status)
            assert "Access-Control-Allow-Origin" not in headers
        assert get(where, path, TOKEN, "HEAD")[2] == "", path
        assert get(where, path, TOKEN, Host="evil.example")[0] == 403, path
    assert "1.0 GiB" in node.virgate("ps", "train")


def test_the_password_is_asked_for_only_if_there_is_one(node):
    node.virgate("devices")
    _, where = node.exporter("--listen", "127.0.0.1:0")
    status, headers, body = get(where, "/full")
    assert status == 403 and "WWW-Authenticate" not in headers and "--token-file" in body
    assert "/full" not in get(where, "/")[2]
    assert get(where, "/", "")[0] == 401  # an empty password must not be accepted in place of the token


def test_the_page_shows_other_users_no_programs(node):
    """A reader without the token must see what `virgate ps` shows to every user, and get no more by another path."""
    run_hostile(node)
    where = start(node)
    for path in ("/", "/metrics", "/api/overview", "/api/history", "/api/history?vgpu=train", "/api/events"):
        status, _, body = get(where, path)
        assert status == 200 and 'class="tenant"' not in body and "uses the GPU" not in body, path
    for event in json.loads(get(where, "/api/events")[2])["events"]:
        assert event["kind"] == "started" or (event["pid"], event["command"], event["text"]) == (None, "", ""), event
    full = json.loads(get(where, "/api/events", TOKEN)[2])["events"]
    assert any(event["command"] and event["pid"] and event["text"] for event in full), full


def test_programs_need_the_token(node):
    run_hostile(node)
    where = start(node)
    for path in ("/", "/api/overview", "/api/events"):
        assert "&lt;b" not in get(where, path)[2] and "u003cb" not in get(where, path)[2], path
        assert get(where, path, "a-wrong-token-0123456789")[0] == 401, path
    status, headers, _ = get(where, "/full")
    assert status == 401 and any(value.startswith("Basic ") for value in headers.get_all("WWW-Authenticate"))
    for path in ("/", "/full"):
        status, _, body = get(where, path, TOKEN)
        assert status == 200 and "&lt;b&gt;&amp;&quot;x" in body and "<b>&" not in body, path


def test_json_has_the_figures(node):
    run_hostile(node)
    where = start(node)
    _, _, text = get(where, "/api/overview", TOKEN)
    vgpu = json.loads(text)["vgpus"][0]
    assert (vgpu["name"], vgpu["memory"], vgpu["share"]) == ("train", 512 << 20, 30), vgpu
    assert vgpu["charged"] == 80 << 20 and vgpu["tenants"][0]["command"] == '<b>&"x' and "<" not in text, vgpu
    assert json.loads(get(where, "/api/overview")[2])["vgpus"][0]["tenants"] is None
    wait_for(lambda: json.loads(get(where, "/api/history")[2])["last"] >= 2, "two samples")
    history = json.loads(get(where, "/api/history?vgpu=train")[2])
    assert set(history["series"][0]) >= {"charged", "refusals"}
    only = json.loads(get(where, "/api/history?vgpu=train&figures=refusals")[2])["series"][0]
    assert set(only) == {"vgpu", "device", "refusals"}, only
    assert history["series"][0]["charged"][-1] == 80 << 20 and len(history["times"]) == len(
        history["series"][0]["charged"]), history
    events = json.loads(get(where, "/api/events", TOKEN)[2])
    assert {"created", "entered"} <= {event["kind"] for event in events["events"]}, events
    assert not json.loads(get(where, f"/api/events?after={events['events'][-1]['number']}", TOKEN)[2])["events"]


def test_bad_queries_and_a_missing_daemon(node):
    node.virgate("create", "train", "--memory", "1G")
    where = start(node)
    for after in ("x", "-1", "1x", "", "99999999999999999999999"):
        status, _, body = get(where, f"/api/events?after={after}")
        assert status == 400 and "after=" in body, (after, status)
        assert get(where, f"/api/turns?after={after}")[0] == 400, after
    for most in ("x", "-1", ""):
        assert get(where, f"/api/events?most={most}")[0] == 400, most
    for figures in ("x", "", "charged,", "charged&figures"):
        assert get(where, f"/api/history?figures={figures}")[0] == (200 if "&" in figures else 400), figures
    for vgpu in ("nonesuch", "", "../etc", "%00", "train%20"):
        assert get(where, f"/api/history?vgpu={vgpu}")[0] == 404, vgpu
    assert len(json.loads(get(where, "/api/events?most=1")[2])["events"]) == 1
    node.virgate("shutdown")
    wait_for(lambda: get(where, "/api/overview")[0] == 503, "the daemon's end is noticed")
    wait_for(lambda: get(where, "/api/turns")[0] == 503, "no turns")
    assert not json.loads(get(where, "/api/turns")[2])["up"]
    status, _, body = get(where, "/")
    assert status == 200 and 'class="problem"' in body
    node.virgate("ps")
    wait_for(lambda: get(where, "/api/overview")[0] == 200, "the daemon's return is noticed")
    wait_for(lambda: get(where, "/api/turns")[0] == 200, "the daemon's return is noticed")


def follow_turns(where, is_enough, token=None):
    """Asks for turns as the page does. Returns the phases when is_enough(phases) is true."""
    phases, after = [], 0

    def step():
        nonlocal after
        answer = json.loads(get(where, f"/api/turns?after={after}", token)[2])
        after = answer["next"]
        phases.extend(answer["phases"])
        return is_enough(phases)
    wait_for(step, "the turns")
    return phases


def holders(phases):
    """Returns the vGPUs that had GPU 0, in the order of their turns."""
    holds = sorted((one for one in phases if one["phase"] == "holds" and one["device"] == 0),
                   key=lambda one: one["begin_ns"])
    for one, other in zip(holds, holds[1:]):
        assert one["end_ns"] <= other["begin_ns"], (one, other)
    return [one["vgpu"] for one in holds]


def changes(phases):
    order = holders(phases)
    return sum(one != other for one, other in zip(order, order[1:]))


def test_two_vgpus_alternate(node):
    contend(node)
    where = start(node)
    phases = follow_turns(where, lambda found: changes(found) >= 20, TOKEN)
    assert set(holders(phases)) == {"small", "large"}
    waits = {one["vgpu"] for one in phases if one["phase"] == "waits"}
    assert waits == {"small", "large"} and not any(one["device"] for one in phases), waits
    follow_turns(where, lambda found: any(one["launches"] for one in found), TOKEN)


def test_a_job_has_its_turns_on_all_its_gpus(node):
    contend_with_job(node)
    where = start(node)

    def spans(phases, vgpu, end_ns):
        return {(one["phase"], one["turn"], one["begin_ns"], one["end_ns"]) for one in phases
                if one["vgpu"] == vgpu and one["end_ns"] < end_ns}

    phases = follow_turns(where, lambda found: changes(found) >= 10 and {"job.0", "job.1"} <= {
        one["vgpu"] for one in found if one["phase"] == "holds" and one["launches"]}, TOKEN)
    places = {(one["vgpu"], one["device"]) for one in phases}
    listed = {(one["name"], one["device"]) for one in json.loads(node.virgate("ps", "--json"))["vgpus"]}
    assert places == listed and {device for name, device in places if name != "small"} == {0, 1}, (places, listed)
    # The last phase may be recorded for only one of the two GPUs so far, so it is not compared.
    end_ns = max(one["end_ns"] for one in phases)
    first, second = spans(phases, "job.0", end_ns), spans(phases, "job.1", end_ns)
    assert first == second and sum(phase == "holds" for phase, *_ in second) >= 5, first ^ second


def test_other_users_see_turns_without_launches(node):
    programs = contend(node)
    where = start(node)
    follow_turns(where, lambda found: any(one["launches"] for one in found), TOKEN)  # wait for launches to hide
    phases = follow_turns(where, lambda found: changes(found) >= 4)
    assert all(one["launches"] is None for one in phases)
    fields = {"vgpu", "device", "phase", "turn", "begin_ns", "end_ns", "charged_ns", "launches"}
    assert all(set(one) == fields for one in phases), phases[0]  # no field tells the programs
    public, full = (json.loads(get(where, "/api/turns", token)[2]) for token in (None, TOKEN))
    assert public["public"] and public["phases"] and all(one["launches"] is None for one in public["phases"])
    assert not full["public"] and any(one["launches"] for one in full["phases"])
    assert get(where, "/api/turns", "a-wrong-token-0123456789")[0] == 401
    for program in programs:
        assert program.poll() is None


def test_all_readers_share_one_recording(node):
    contend(node)
    where = start(node)
    follow_turns(where, lambda found: changes(found) >= 4)
    answers = [json.loads(get(where, "/api/turns", token)[2]) for token in (None, TOKEN, None)]
    keys = [[(one["vgpu"], one["turn"], one["begin_ns"]) for one in answer["phases"]] for answer in answers]
    assert keys[0], answers
    for other in keys[1:]:  # a later answer may have more phases
        assert other[:len(keys[0])] == keys[0] or keys[0][-1] in other
    assert len({answer["since_ns"] for answer in answers}) == 1, answers


def test_nothing_is_recorded_while_nobody_looks(node):
    contend(node)
    where = start(node)
    # Sends the requests of a page that does not show turns, and requests for turns that are refused.
    for _ in range(3):
        for path in ("/", "/full", "/metrics", "/api/overview", "/api/history", "/api/events"):
            assert get(where, path, TOKEN)[0] == 200, path
        for path in ("/turns.js", "/api/turns?after=x"):
            assert get(where, path)[0] in (200, 400), path
        assert get(where, "/api/turns", Host="evil.example")[0] == 403
        assert get(where, "/api/turns", "a-wrong-token-0123456789")[0] == 401
        wait_for(lambda: moved_on(node), "turns")
    # The daemon numbers all records that it has ever made. The number 0 means that it has recorded nothing.
    assert ask_daemon(node, {"op": "trace"})["next"] == 0
    follow_turns(where, lambda found: changes(found) >= 4)
    assert ask_daemon(node, {"op": "trace"})["next"] > 0


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
