#!/usr/bin/env python3
"""test_progress_line.py BUILD [WORD...]: tests the progress line of long commands on a pseudo-terminal. A slow bus of
the simulated GPU makes the commands take long. With WORDs, runs only the tests whose name has one of them."""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../exporter"))
from node import PATIENCE_S, Skipped, run_tests, wait_for  # noqa: E402

ERASE = b"\r\x1b[J"
# One redraw sends the line, erases what was behind it before, and returns the cursor to the first column.
REDRAW = rb"\r([ -~]+)\x1b\[J\r"
SLOW = {"VIRGATE_SIM": "devices=1,memory=2G,ctx=16M,slice=2ms", "VIRGATE_SIM_COST": "htod=48M,dtoh=48M"}


class Terminal:
    """A program whose controlling terminal is a new pseudo-terminal."""

    def __init__(self, node, *words, columns=80, environment=None):
        self.output = b""
        self.master, slave = pty.openpty()
        self.resize(columns)
        self.process = subprocess.Popen(
            [f"{node.build}/cli/virgate", *words], env=node.environment | {"TERM": "xterm"} | (environment or {}),
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        node.processes.append(self.process)
        os.close(slave)

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def read(self):
        """Reads the output that has arrived. Returns False if the program has closed the terminal."""
        with contextlib.suppress(OSError):
            if not select.select([self.master], [], [], 0.1)[0]:
                return True
            part = os.read(self.master, 65536)
            self.output += part
            return bool(part)
        return False

    def wait(self, pattern, start=0):
        """Reads until the output after `start` matches. Returns the match."""
        end = time.monotonic() + PATIENCE_S
        while not (found := re.compile(pattern, re.S).search(self.output, start)):
            assert self.read() and time.monotonic() < end, f"no {pattern}: {self.output}"
        return found

    def finish(self, code=0):
        end = time.monotonic() + PATIENCE_S
        while self.read():
            assert time.monotonic() < end, self.output
        os.close(self.master)
        assert self.process.wait(timeout=PATIENCE_S) == code, (self.process.returncode, self.output)
        return self.output


def lines_of(output):
    return [line.decode() for line in re.findall(REDRAW, output)]


def check_bar(output, step):
    """Checks that a bar of the step was drawn, grew, and was erased before anything else."""
    lines = [line for line in lines_of(output) if line.startswith(f"{step}  [")]
    assert len(lines) >= 2, output
    percents = [int(re.search(r"(\d+) %", line)[1]) for line in lines]
    assert percents == sorted(percents) and percents[0] < percents[-1], lines
    assert any(re.search(r" of [0-9.]+ MiB +[0-9.]+ [KM]iB/s +(\d+m)?\d+ ?s left$", line) for line in lines), lines
    # the end of the bar is always in the same column
    assert len({line.index("]") for line in lines if "/s" in line}) == 1, lines
    rest = re.sub(REDRAW, b"\0", output)
    assert re.search(rb"\0" + re.escape(ERASE), rest) and not re.search(rb"\0[^\0\r]", rest), rest
    assert b"\x1b" not in rest.replace(ERASE, b""), rest


def make_file(node, size):
    with open(f"{node.directory}/contents", "wb") as file:
        file.truncate(size)
    return file.name


def grow(node, vgpu, size):
    """Starts a program that allocates memory in a new vGPU and keeps it. Waits until the memory is charged."""
    node.virgate("create", vgpu, "--memory", "1G", "--evictable")
    node.start(f"{node.build}/cli/virgate", "run", "--vgpu", vgpu, "--", f"{node.build}/examples/grow", "--chunk",
               "32M", "--most", f"{size}M", "--hold", "10000", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: f" {size + 16}.0 MiB" in node.virgate("ps", vgpu), f"{size} MiB in {vgpu}")


def test_a_publication_and_its_reader(node):
    node.environment |= SLOW
    publisher = Terminal(node, "share", "publish", "weights", "--from", make_file(node, 128 << 20))
    publisher.wait(b"weights is published")
    check_bar(publisher.output, "copy")
    reader = Terminal(node, "share", "open", "weights", "--to", f"{node.directory}/copy")
    check_bar(reader.finish(), "copy")
    assert os.path.getsize(f"{node.directory}/copy") == 128 << 20
    publisher.process.terminate()
    assert not re.search(REDRAW, publisher.finish().split(b"is published")[1]), publisher.output


def test_suspend_and_resume(node):
    node.environment |= SLOW
    grow(node, "train", 160)
    for verb, step in (("suspend", "evict"), ("resume", "device-in")):
        check_bar(Terminal(node, verb, "train").finish(), step)


def test_a_step_without_bytes_shows_its_time(node):
    restore = Terminal(node, "restore", "--from", f"unix:{node.directory}/socket", "--detach")
    restore.wait(rb"\rreceive  1 s\x1b")
    restore.wait(rb"\rreceive  2 s\x1b")
    restore.process.terminate()
    assert ERASE + b"virgate: " in restore.finish(125), restore.output


def test_a_resize(node):
    node.environment |= SLOW
    publisher = Terminal(node, "share", "publish", "weights", "--from", make_file(node, 256 << 20), columns=100)
    publisher.wait(rb"\rcopy  \[[^]]{30,40}\]")
    length = len(publisher.output)
    publisher.resize(24)
    narrow = publisher.wait(rb"\rcopy   \d+ % +\d+ s left\x1b", length)
    length = len(publisher.output)
    publisher.resize(5)
    publisher.wait(rb"\r *\d+ \x1b", length)
    publisher.wait(b"weights is published")
    after = lines_of(publisher.output[narrow.start():])
    assert max(map(len, after)) < 24, after
    publisher.process.terminate()
    publisher.finish()


def test_a_narrowed_window_is_left_clean(node):
    """Narrows the window of tmux, so that the progress line is wrapped. There are other lines above it, so that the
    wrapped line does not scroll off the screen."""
    if not shutil.which("tmux"):
        raise Skipped("needs tmux")
    node.environment |= SLOW | {"TMUX_TMPDIR": node.directory}
    node.environment.pop("TMUX", None)

    def tmux(*words):
        return subprocess.run(["tmux", "-L", "progress", *words], env=node.environment, text=True, capture_output=True,
                              timeout=PATIENCE_S, check=True).stdout

    def wait_for_screen(pattern):
        return wait_for(lambda: re.search(pattern, tmux("capture-pane", "-p", "-S", "-")), pattern)

    tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "24",
         f"seq 40; echo before; {node.build}/cli/virgate share publish weights --from {make_file(node, 256 << 20)}")
    try:
        wait_for_screen(r"\d s left")
        tmux("resize-window", "-x", "40", "-y", "24")
        wait_for_screen(r"\n40\nbefore\ncopy  \[[#-]+\] +\d+ % +\d+ s left\n*$")
        wait_for_screen(r"\n40\nbefore\nweights is published[^\n]*\n[^\n]*\n*$")
    finally:
        tmux("kill-server")


def test_signals_erase_the_line(node):
    node.environment |= SLOW
    for number in (signal.SIGINT, signal.SIGTERM):
        publisher = Terminal(node, "share", "publish", "weights", "--from", make_file(node, 512 << 20))
        publisher.wait(b" s left")
        if number == signal.SIGINT:
            os.write(publisher.master, b"\x03")  # ^C
        else:
            publisher.process.send_signal(number)
        assert publisher.finish(-number).endswith(ERASE), publisher.output[-200:]


def test_a_stopped_command_goes_on(node):
    node.environment |= SLOW
    publisher = Terminal(node, "share", "publish", "weights", "--from", make_file(node, 256 << 20))
    for _ in range(2):
        length = len(publisher.output)
        publisher.wait(b" s left", length)
        publisher.process.send_signal(signal.SIGTSTP)
        publisher.wait(re.escape(ERASE) + rb"$", length)
        # The command leads a session of its own, so its process group is orphaned and SIGTSTP does not stop it. If it
        # was stopped in spite of that, SIGCONT continues it.
        publisher.process.send_signal(signal.SIGCONT)
    publisher.wait(b"weights is published")
    publisher.process.terminate()
    publisher.finish()


def test_nothing_is_drawn_elsewhere(node):
    node.environment |= SLOW
    file = make_file(node, 96 << 20)
    words = [f"{node.build}/cli/virgate", "share", "publish", "weights", "--from", file]
    with subprocess.Popen(words, env=node.environment | {"TERM": "xterm"}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as piped:
        first = piped.stdout.readline()
        piped.terminate()
        assert first + piped.stdout.read() == b"weights is published: generation 1, 96.0 MiB\n" \
            b"weights is withdrawn\n"
    for term in ("dumb", ""):
        plain = Terminal(node, "share", "publish", "weights", "--from", file, environment={"TERM": term})
        plain.wait(b"weights is published")
        plain.process.terminate()
        output = plain.finish()
        assert b"\x1b" not in output and output.startswith(b"weights is published"), output


def test_a_short_command_draws_nothing(node):
    publisher = Terminal(node, "share", "publish", "weights", "--from", make_file(node, 1 << 20))
    publisher.wait(b"weights is published")
    publisher.process.terminate()
    assert b"\x1b" not in publisher.finish(), publisher.output


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
