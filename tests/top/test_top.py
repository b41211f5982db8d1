#!/usr/bin/env python3
"""test_top.py BUILD [WORD...]: tests `virgate top` on a terminal, with a daemon on the simulated GPU. The terminal is
tmux, which can print what its screen shows. With WORDs, runs only the tests whose name has one of them."""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../exporter"))
from node import PATIENCE_S, Skipped, run_tests, wait_for  # noqa: E402

COLOUR = r"\x1b\[(?:[0-9]+;)*[34][0-7][;m]"
GPU_MEMORY = "devices=1,memory=4G,ctx=16M"


class Screen:
    """A tmux server for one test, in which `virgate top` runs."""

    count = 0

    def __init__(self, node, *words, columns=80, rows=24, term="tmux-256color", locale="C.UTF-8", program=None):
        if not shutil.which("tmux"):
            raise Skipped("needs tmux")
        self.node = node
        Screen.count += 1
        self.name = f"screen-{Screen.count}"
        self.environment = node.environment | {"LC_ALL": "C.UTF-8", "TMUX_TMPDIR": node.directory}
        for name in ("TMUX", "NO_COLOR"):
            self.environment.pop(name, None)
        program = program or [f"{node.build}/cli/virgate", "top", "--delay", "0.2", *words]
        self.tmux("-f", "/dev/null", "-u", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  f"TERM={term} LC_ALL={locale} {' '.join(program)}; echo ended with $?; exec sleep 1000")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-L", self.name, *words], env=self.environment, text=True, capture_output=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, f"tmux {words}: {done.stderr}"
        return done.stdout

    def text(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def wait(self, pattern):
        """Waits until the screen matches the pattern, and returns the match."""
        try:
            return wait_for(lambda: re.search(pattern, self.text(), re.M), pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{self.text()}") from None

    def wait_until_gone(self, pattern):
        wait_for(lambda: not re.search(pattern, self.text(), re.M), f"still on the screen: {pattern}")

    def close(self):
        with contextlib.suppress(AssertionError):
            self.tmux("kill-server")


@contextlib.contextmanager
def screen(node, *words, **options):
    opened = Screen(node, *words, **options)
    try:
        yield opened
    finally:
        opened.close()


def grow(node, vgpu, size):
    """Starts a program in a vGPU that allocates memory and keeps it. Waits until the memory is charged."""
    node.start(f"{node.build}/cli/virgate", "run", "--vgpu", vgpu, "--", f"{node.build}/examples/grow", "--chunk",
               "64M", "--most", size, "--hold", "10000", "--no-touch", stdout=subprocess.DEVNULL,
               stderr=subprocess.DEVNULL)
    wait_for(lambda: re.search(rf"grow +{int(size[:-1]) + 16}\.0 MiB", node.virgate("ps", vgpu)), f"{size} in {vgpu}")


def figures(node, vgpu):
    """Returns the line of a vGPU in the output of `virgate ps`."""
    return node.virgate("ps", "--quiet", vgpu).splitlines()[1]


def test_five_tasks_take_at_most_three_keys(node):
    node.environment["VIRGATE_SIM"] = GPU_MEMORY
    node.virgate("create", "small", "--memory", "512M", "--share", "20")
    node.virgate("create", "large", "--memory", "1G", "--evictable", "--share", "30")
    grow(node, "small", "64M")
    grow(node, "large", "512M")
    with screen(node) as top:
        top.wait("^small ")
        top.type("M")  # sorts by memory: the vGPU with the most memory comes first, and its program is below it
        lines = top.wait(r"^NAME[^\n]*\n(large .*)\n(. \d+ grow.*)\n(small .*)\n")
        assert "528M/1.0G" in lines[1] and "528M" in lines[2] and "80M/512M" in lines[3], lines[0]
        top.type("f")  # follow it
        top.wait("follows large")
        top.wait_until_gone("^small")
        top.type("f")
        top.wait("^small ")
        top.type("+")  # change its share
        top.wait("large: share 35 %")
        assert "35 %" in figures(node, "large")
        top.type("z")  # suspend it
        top.wait("large: suspended, 1 program")
        assert "suspended" in figures(node, "large")
        top.wait("^large .*suspended")
        top.type("z")
        top.wait("large: resumed, 1 program")
        waiting = node.start(f"{node.build}/cli/virgate", "run", "--wait", "--memory", "3G", "--", "true")
        top.type("w")  # shows the page that says which vGPU waits for which
        top.wait("GPU 0: 1 `virgate run --wait` in the queue, for room")
        top.type("q")
        top.wait("^ended with 0")
        waiting.kill()


def test_a_vgpu_waits_for_the_room_of_another(node):
    node.environment["VIRGATE_SIM"] = GPU_MEMORY
    for name in ("one", "two"):
        node.virgate("create", name, "--memory", "3G", "--evictable")
        node.start(f"{node.build}/cli/virgate", "run", "--vgpu", name, "--", f"{node.build}/examples/grow", "--chunk",
                   "256M", "--most", "2304M", "--hold", "10000", "--no-touch", stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    with screen(node) as top:
        top.type("w")
        top.wait(r"^ (one +0 +room +two|two +0 +room +one)$")


def test_limits_and_shares_are_typed(node):
    node.virgate("create", "train", "--memory", "1G", "--share", "20")
    with screen(node) as top:
        top.wait("^train ")
        top.type("m", "2", "G", "Enter")
        top.wait("train: limit 2.0 GiB")
        assert "/ 2.0 GiB" in figures(node, "train")
        top.type("s", "n", "o", "n", "e", "Enter")
        top.wait("train: no share")
        top.type("m", "9", "9", "T", "Enter")
        top.wait(r"99.0 TiB|is left")  # the screen shows the reason for the refusal that the daemon gave
        assert "/ 2.0 GiB" in figures(node, "train")
        top.type("m", "x", "Enter")
        top.wait('"x" is not a size')


def test_programs_end_after_a_question(node):
    node.virgate("create", "train", "--memory", "1G")
    grow(node, "train", "64M")
    with screen(node) as top:
        top.wait("^. [0-9]+ grow")
        top.type("k", "n")
        top.wait("no signal was sent")
        top.type("Down", "k")  # the program alone
        top.wait(r"Send TERM to process \d+ \(grow\) of train")
        top.type("y")
        top.wait(r"train: sent TERM to process \d+")
        top.wait("^train .*idle")
        top.wait_until_gone("^. [0-9]+ grow")


def test_the_view_goes_on_after_a_restart_of_the_daemon(node):
    node.virgate("create", "train", "--memory", "1G")
    with screen(node) as top:
        top.wait("^train ")
        node.virgate("shutdown")
        top.wait("no new figures: .*daemon")
        assert re.search("^train ", top.text(), re.M)  # the figures that were read last must stay on the screen
        top.type("+")
        top.wait("no new figures")
        node.virgate("create", "later", "--memory", "1G")
        top.wait("^later ")
        top.wait_until_gone("no new figures")


def daemon_pid(node):
    """Returns the pid of the process that listens on the daemon's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(f"{node.directory}/run/virgated.sock")
        return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def test_keys_work_while_the_daemon_does_not_answer(node):
    node.virgate("create", "train", "--memory", "1G")
    with screen(node) as top:
        top.wait("^train ")
        daemon = daemon_pid(node)
        os.kill(daemon, signal.SIGSTOP)
        try:
            top.type("+", "h")
            top.wait("^ k +send a signal")
            top.type("h")
            top.wait("no new figures: ")
            top.type("q")
            top.wait("^ended with 0")
        finally:
            os.kill(daemon, signal.SIGCONT)


def test_all_sizes_and_a_resize(node):
    node.virgate("create", "train", "--memory", "1G")
    with screen(node, columns=140, rows=40) as top:
        top.wait("^train ")
        assert "OWNER" in top.text() and "HISTORY" in top.text()
        for columns, rows in ((80, 24), (40, 10), (20, 5), (10, 2), (2, 1), (300, 100), (80, 24)):
            top.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            if columns >= 10:
                top.wait("^train")
        top.wait("^train .*idle")
        top.wait("hHelp")


def test_colour_unicode_and_their_absence(node):
    node.virgate("create", "train", "--memory", "1G", "--share", "20")
    with screen(node) as top:
        top.wait("^train .*─")
        assert re.search(COLOUR, top.text("-e")), "no colour"
    with screen(node, "--no-color", locale="C") as top:
        top.wait(r"^train .*\.\.\.")
        assert not re.search(COLOUR, top.text("-e")), "colour"
        assert top.text().isascii(), top.text()
    for term in ("vt100", "linux", "xterm-mono"):
        with screen(node, "--ascii", term=term) as top:
            top.wait("^train .*idle")
            top.type("q")
            top.wait("^ended with 0")


def on_terminal(node, *words, until=b"", last=b"q", code=0, environment=None):
    """Runs a program on a pseudo-terminal. When `until` appears in its output, types `last`. Returns the output."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, 140, 0, 0))
    process = subprocess.Popen(words, env=node.environment | (environment or {}), stdin=slave, stdout=slave,
                               stderr=slave, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    node.processes.append(process)
    os.close(slave)
    output, end, is_typed = b"", time.monotonic() + PATIENCE_S, False
    while time.monotonic() < end:
        if not is_typed and until in output:
            is_typed = True
            if isinstance(last, bytes):
                os.write(master, last)
            else:
                process.send_signal(last)
        if not select.select([master], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    os.close(master)
    assert process.wait(timeout=PATIENCE_S) == code, (process.returncode, output)
    return output


def test_without_a_terminal_it_says_so(node):
    virgate = f"{node.build}/cli/virgate"
    error = node.virgate("top", code=2)
    assert re.fullmatch(r"virgate top: standard input .* must be a terminal: .*virgate ps.*\n", error), error
    for term, text in (("no-such-terminal", "TERM=no-such-terminal is unknown"), ("", "TERM is not set"),
                       ("dumb", "TERM=dumb cannot place text"), ("\x1b]0;x", "TERM=?]0;x is unknown")):
        output = on_terminal(node, virgate, "top", code=2, last=b"", environment={"TERM": term}).decode()
        assert text in output and output.count("\n") == 1 and "\x1b" not in output, output
    for words, text in ((["--delay", "0"], "0.1 to 3600"), (["--delay", "x"], "0.1 to 3600"),
                        (["--delay", "nan"], "3600"), (["a" * 70], "too long")):
        error = node.virgate("top", *words, code=2)
        assert text in error, error
    assert not os.path.exists(f"{node.directory}/run/virgated.sock"), "a mistake has started a daemon"


def test_a_missing_program_is_named(node):
    os.mkdir(f"{node.directory}/bin")
    shutil.copy(f"{node.build}/cli/virgate", f"{node.directory}/bin/virgate")
    done = subprocess.run([f"{node.directory}/bin/virgate", "top"], env=node.environment, text=True,
                          capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "virgate-top is not installed" in done.stderr, done.stderr
    assert "virgate ps --watch" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_signals_leave_the_terminal_in_order(node):
    for last in (b"q", b"\x03", signal.SIGTERM, signal.SIGHUP):
        output = on_terminal(node, f"{node.build}/cli/virgate", "top", until=b"no vGPUs", last=last,
                             environment={"TERM": "xterm", "LC_ALL": "C.UTF-8"})
        assert b"\x1b[?1049l" in output, output[-200:]


def test_hostile_programs_send_nothing_to_the_terminal(node):
    node.environment["VIRGATE_SIM"] = GPU_MEMORY
    node.virgate("create", "train", "--memory", "1G")
    hostile = f"{node.directory}/\x1b[2J\x1b]0;\x07é"
    shutil.copy(f"{node.build}/examples/grow", hostile)
    os.chmod(hostile, 0o755)
    node.start(f"{node.build}/cli/virgate", "run", "--vgpu", "train", "--", hostile, "--chunk", "64M", "--most", "64M",
               "--hold", "10000", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: "80.0 MiB" in node.virgate("ps", "train"), "the program")
    output = on_terminal(node, f"{node.build}/cli/virgate", "top", until=b"?[2J?]0;?",
                         environment={"TERM": "xterm", "LC_ALL": "C.UTF-8"})
    assert b"\x1b]0;" not in output and b"\x07" not in output, output


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
