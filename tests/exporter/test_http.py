#!/usr/bin/env python3
"""test_http.py BUILD [WORD...]: sends valid and invalid requests to virgate-exporter. Runs only the tests whose names
contain a WORD, if any is given."""

import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from node import PATIENCE_S, Skipped, run_tests, wait_for  # noqa: E402

TOKEN = "a-token-of-the-test-0123456789"


def connect(where):
    if where.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(PATIENCE_S)
        made.connect(where.removeprefix("unix:"))
        return made
    host, port = re.match(r"http://\[?([^]/]*)\]?:(\d+)", where).groups()
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def read_all(connection):
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except (ConnectionResetError, BrokenPipeError):
        pass
    return b"".join(parts)


def send(where, data):
    """Sends bytes, and returns the status and the body of the answer. The status 0 means that the connection was closed
    without an answer."""
    with connect(where) as connection:
        try:
            connection.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            pass
        answer = read_all(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    found = re.match(rb"HTTP/1\.[01] (\d+)", head)
    return int(found[1]) if found else 0, body.decode()


def ask(where, path="/metrics", method="GET", host="localhost", headers=""):
    return send(where, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n".encode())


def value(text, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
    assert found, f"no {name} in {text}"
    return float(found[1])


def check_alive(where):
    status, body = ask(where)
    assert status == 200 and value(body, "virgate_up") == 1, (status, body[:200])


def test_metrics_show_the_figures(node):
    node.virgate("create", "train", "--memory", "2G", "--share", "30")
    _, where = node.exporter("--listen", "127.0.0.1:0")
    status, body = ask(where)
    assert status == 200
    user = re.search(r'vgpu="train".*owner="([^"]*)"', body)[1]
    assert value(body, f'virgate_vgpu_memory_limit_bytes{{vgpu="train",device="0",owner="{user}"}}') == 2 << 30
    assert value(body, f'virgate_vgpu_share_ratio{{vgpu="train",device="0",owner="{user}"}}') == 0.3
    assert "virgate_vgpu_tenants" not in body
    printed = node.virgate("metrics")
    assert "virgate_vgpu_tenants{" in printed and "virgate_vgpu_tenants" not in node.virgate("metrics", "--public")
    for line in printed.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) virgate_\w+ .*|virgate_\w+(\{.*\})? \S+", line), line


def test_promtool_accepts_the_metrics(node):
    promtool = shutil.which("promtool")
    if not promtool:
        raise Skipped("needs promtool (package prometheus)")
    node.virgate("create", "train", "--memory", "2G", "--share", "30")
    _, where = node.exporter("--listen", "127.0.0.1:0")
    for text in (ask(where)[1], node.virgate("metrics", "--ephemeral")):
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr


def test_ephemeral_vgpus_share_a_row(node):
    node.virgate("create", "anchor", "--memory", "64M", "--device", "0")
    for _ in range(2):
        node.start(f"{node.build}/cli/virgate", "run", "--memory", "64M", "--device", "0", "sleep", "1000")
    wait_for(lambda: 'ephemeral_vgpus{vgpu="(ephemeral)"' in node.virgate("metrics") and
             re.search(r'ephemeral_vgpus\{vgpu="\(ephemeral\)".*\} 2$', node.virgate("metrics"), re.M), "two vGPUs")
    assert len(re.findall(r"^virgate_vgpu_info\{", node.virgate("metrics"), re.M)) == 2
    assert len(re.findall(r"^virgate_vgpu_info\{", node.virgate("metrics", "--ephemeral"), re.M)) == 3


def test_host_must_be_this_machine(node):
    node.virgate("devices")
    _, where = node.exporter("--listen", "127.0.0.1:0", "--host", "gpu.example")
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:9", "127.9.9.9", "[::1]:9", "gpu.example:443"):
        assert ask(where, host=host)[0] == 200, host
    for host in ("evil.example", "localhost.evil.example", "128.0.0.1", "[::2]", "gpu.example.evil",
                 "127.0.0.1.nip.io"):
        assert ask(where, host=host)[0] == 403, host
    for host in ("", "[::1", "localhost:80x", "a b", "[]:1", ":80", "localhost:80:80"):
        assert ask(where, host=host)[0] in (400, 403), host
    assert send(where, b"GET /metrics HTTP/1.0\r\n\r\n")[0] == 400
    assert send(where, b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")[0] == 400


def test_only_known_paths_and_methods(node):
    node.virgate("devices")
    _, where = node.exporter("--listen", "127.0.0.1:0")
    for path in ("/", "/metrics", "/metrics?x=1"):
        assert ask(where, path)[0] == 200, path
    for path in ("/x", "/metrics/", "//metrics", "/../metrics", "/metrics/../../etc/passwd",
                 "/%2e%2e/%2e%2e/etc/passwd", "/metrics%2f", "\\metrics", "/" + "a" * 4000):
        assert ask(where, path)[0] in (400, 404), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"):
        assert ask(where, method=method)[0] in (400, 405), method
    status, body = send(where, b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
                               b"Connection: close\r\n\r\nabcd")
    assert status == 405 and "nothing can be changed" in body
    status, body = ask(where, method="HEAD")
    assert (status, body) == (200, "")


def test_malformed_requests_get_no_figures(node):
    node.virgate("devices")
    exporter, where = node.exporter("--listen", "127.0.0.1:0")
    host = b"Host: localhost\r\n"
    for data in (b"", b"\r\n\r\n", b"\0" * 100, b"GET\r\n\r\n", b"GET /metrics\r\n\r\n",
                 b"GET /metrics HTTP/9.9\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\n" + host + b"X: " + b"a" * 100000 + b"\r\n\r\n",
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n",
                 b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
                 b"POST /metrics HTTP/1.1\r\n" + host + b"Content-Length: -1\r\n\r\n",
                 b"POST /metrics HTTP/1.1\r\n" + host + b"Content-Length: 99999999999999999999\r\n\r\n",
                 b"POST /metrics HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500), os.urandom(5000)):
        with connect(where) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            try:
                answer = read_all(connection)
            except OSError:
                answer = b""
        assert b"virgate_up" not in answer, data[:80]
        assert exporter.poll() is None, data[:80]
    check_alive(where)


def test_slow_and_half_open_connections_end(node):
    node.virgate("devices")
    exporter, where = node.exporter("--listen", "127.0.0.1:0")
    silent, half, slow = connect(where), connect(where), connect(where)
    half.sendall(b"GET /metrics HTTP/1.1\r\nHost: local")
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 4000

    def feed_until_closed():
        slow.settimeout(1)
        for byte in request:
            check_alive(where)
            try:
                slow.sendall(bytes([byte]))
                if slow.recv(1) == b"":
                    return True
            except TimeoutError:
                pass
            except OSError:
                return True
        return False

    assert feed_until_closed(), "a connection that sends a byte each second stays open"
    for connection in (silent, half):
        assert b"virgate_up" not in read_all(connection)
        connection.close()
    slow.close()
    assert exporter.poll() is None


def test_thousand_connections(node):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2200:
        raise Skipped("needs 2200 descriptors (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2200), hard))
    node.virgate("create", "train", "--memory", "1G")
    exporter, where = node.exporter("--listen", "127.0.0.1:0")
    held = [connect(where) for _ in range(1000)]
    for connection in held[::2]:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: local")
    check_alive(where)
    assert "train" in node.virgate("ps")  # the daemon can still answer other clients
    status = open(f"/proc/{exporter.pid}/status", encoding="ascii").read()
    assert int(re.search(r"VmRSS:\s+(\d+)", status)[1]) < 64 << 10, status
    for connection in held:
        connection.close()
    check_alive(where)


def test_unix_socket_trusts_its_user(node):
    node.virgate("create", "train", "--memory", "1G")
    path = f"{node.directory}/metrics.sock"
    exporter, where = node.exporter("--listen", f"unix:{path}")
    assert where == f"unix:{path}" and stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert "virgate_vgpu_tenants{" in ask(where, host="whatever")[1]
    exporter.kill()
    exporter.wait()
    # the exporter replaces the socket file that a killed one left
    exporter, where = node.exporter("--listen", f"unix:{path}", "--socket-mode", "0666")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
    exporter.send_signal(signal.SIGTERM)
    assert exporter.wait(PATIENCE_S) == 0 and not os.path.exists(path)


def test_token(node):
    node.virgate("create", "train", "--memory", "1G")
    file = f"{node.directory}/token"
    with open(file, "w", encoding="ascii") as opened:
        opened.write(TOKEN + "\n")
    os.chmod(file, 0o600)
    _, where = node.exporter("--listen", "127.0.0.1:0", "--token-file", file)
    assert "virgate_vgpu_tenants" not in ask(where)[1]
    assert "virgate_vgpu_tenants{" in ask(where, headers=f"Authorization: Bearer {TOKEN}\r\n")[1]
    for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN):
        assert ask(where, headers=f"Authorization: {wrong}\r\n")[0] == 401, wrong
    _, where = node.exporter("--listen", "0.0.0.0:0", "--token-file", file, "--host", "gpu.example")
    where = where.replace("0.0.0.0", "127.0.0.1")
    assert ask(where)[0] == 401
    assert ask(where, headers=f"Authorization: Bearer {TOKEN}\r\n")[0] == 200


def test_bad_options_are_refused(node):
    program = f"{node.build}/exporter/virgate-exporter"
    weak, short = f"{node.directory}/weak", f"{node.directory}/short"
    for path, text, mode in ((weak, TOKEN, 0o644), (short, "short", 0o600)):
        with open(path, "w", encoding="ascii") as opened:
            opened.write(text)
        os.chmod(path, mode)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for words, code, said in (
                (["--listen", "0.0.0.0:0"], 2, "give a token"), (["--listen", "[::]:0"], 2, "give a token"),
                (["--listen", "localhost:1"], 2, "in digits"), (["--listen", "127.0.0.1:65536"], 2, "port"),
                (["--listen", "127.0.0.1:"], 2, "port"), (["--listen", "unix:relative"], 2, "begin with"),
                (["--listen", "unix:/" + "x" * 200], 2, "107"), (["--token-file", "/nonexistent"], 2, "No such file"),
                (["--token-file", weak], 2, "chmod 600"), (["--token-file", short], 2, "16 to 256"),
                (["--socket-mode", "9"], 2, "octal"), (["x"], 2, "--help"), (["--nonsense"], 2, "nonsense"),
                (["--listen", f"127.0.0.1:{taken.getsockname()[1]}"], 1, "another process listens there"),
                (["--listen", f"unix:{node.directory}/no/such/socket"], 1, "No such file")):
            done = subprocess.run([program, *words], env=node.environment, capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False)
            assert done.returncode == code and said in done.stderr, (words, done.returncode, done.stderr)


def test_daemon_may_end_and_return(node):
    node.virgate("create", "train", "--memory", "1G")
    exporter, where = node.exporter("--listen", "127.0.0.1:0")
    check_alive(where)
    node.virgate("shutdown")

    def up():
        status, body = ask(where)
        assert status == 200
        return value(body, "virgate_up")

    wait_for(lambda: up() == 0, "virgate_up is 0")
    assert not os.path.exists(f"{node.directory}/run/virgated.sock"), "the exporter started a daemon"
    node.virgate("ps")
    wait_for(lambda: up() == 1, "virgate_up is 1")
    exporter.send_signal(signal.SIGTERM)
    assert exporter.wait(PATIENCE_S) == 0
    said = exporter.stderr.read()
    assert said.count("no daemon listens") == 1 and said.count("answers again") == 1, said


def test_many_requests_cost_the_daemon_few(node):
    node.virgate("devices")
    _, where = node.exporter("--listen", "127.0.0.1:0")
    begun = time.monotonic()
    for _ in range(300):
        status, body = ask(where)
        assert status == 200
    seconds = time.monotonic() - begun
    # The exporter writes new figures at most every 0.5 s, and sends them again meanwhile. They include the number of
    # answers sent before, so different figures have different numbers.
    texts = {value(ask(where)[1], 'virgate_exporter_responses_total{code="200"}') for _ in range(20)}
    assert len(texts) <= 2 + seconds / 0.5, (texts, seconds)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
