#!/usr/bin/env python3
"""test_browser.py BUILD [WORD...]: checks the page of virgate-exporter in Chromium: in large and small windows, in
light and dark colours, with keys, for a screen reader, and without scripts. Runs only the tests whose names contain a
WORD, if any is given."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import browser as browsers  # noqa: E402
from node import Skipped, run_tests, wait_for  # noqa: E402
from test_page import contend, contend_with_job  # noqa: E402

TOKEN = "a-token-of-the-test-0123456789"
FIRST_VIEW_MOST = 300 << 10
READY = "document.documentElement.dataset.ready"


def fill(node):
    """Creates two vGPUs. A program runs in one of them, and its name is an HTML element."""
    name = f"{node.directory}/<b>x"
    shutil.copy(f"{node.build}/examples/grow", name)
    node.virgate("create", "train", "--memory", "512M", "--share", "30", "--device", "0")
    node.virgate("create", "infer", "--memory", "1G", "--share", "60", "--device", "0")
    node.start(f"{node.build}/cli/virgate", "run", "--vgpu", "train", "--", name, "--chunk", "64M", "--hold", "10000",
               "--no-touch", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: "refused" in node.virgate("events"), "a refused allocation")


@contextlib.contextmanager
def page(node, path="", wants_ready=True, prepare=fill, **options):
    """Opens the page of a node after prepare(node)."""
    if browsers.missing():
        raise Skipped(f"needs {' and '.join(browsers.missing())} (packages chromium, chromium-driver)")
    prepare(node)
    file = f"{node.directory}/token"
    with open(file, "w", encoding="ascii") as opened:
        opened.write(TOKEN)
    os.chmod(file, 0o600)
    _, where = node.exporter("--listen", "127.0.0.1:0", "--token-file", file)
    if path:  # a page other than the first one needs the token
        where = where.replace("http://", f"http://any:{TOKEN}@")
    with browsers.Browser(**options) as browser:
        browser.log("performance")  # drop the events of the page that the browser showed at its start
        browser.open(where.replace("/metrics", f"/{path}"))
        if wants_ready:
            browser.wait(READY, "the page is ready")
            if not browser.run("return window.Dygraph !== undefined"):
                raise Skipped("needs charts: the build has not found the package libjs-dygraphs")
            # A chart needs two samples, which the daemon takes every 5 seconds.
            browser.wait("document.querySelectorAll('#hour canvas').length > 1 && "
                         "document.querySelector('#timeline canvas')", "the charts")
        yield browser


def requested(browser):
    return [event["params"]["request"]["url"] for event in browser.log("performance")
            if event["method"] == "Network.requestWillBeSent"]


def is_painted(browser, selector):
    """Returns whether a canvas below the element has a pixel that is not transparent."""
    return browser.run("""return [...document.querySelectorAll(arguments[0] + ' canvas')].some(canvas => canvas.width &&
        canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(value => value));""",
                       selector)


def tree(browser):
    """Returns the elements that a screen reader gets, as pairs of a role and a name."""
    nodes = browser.cdp("Accessibility.getFullAXTree")["nodes"]
    return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]


def contrast(browser, front, back):
    """Returns the contrast of two colours, the ratio of their luminances. The colours are properties of the page's
    style."""
    def luminance(name):
        text = browser.run("""const probe = document.createElement('i');
            probe.style.color = `var(${arguments[0]})`;
            document.body.append(probe);
            const color = getComputedStyle(probe).color;
            probe.remove();
            return color;""", name)
        parts = [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(front), luminance(back)))
    return (high + 0.05) / (low + 0.05)


def test_first_view(node):
    with page(node) as browser:
        urls = [url for url in requested(browser) if not url.startswith("data:")]
        origin = browser.run("return location.origin")
        assert len(urls) >= 8 and all(url.startswith(f"{origin}/") for url in urls), urls
        total = browser.run("return performance.getEntries().reduce((sum, one) => sum + (one.transferSize ?? 0), 0)")
        assert 40 << 10 < total < FIRST_VIEW_MOST, total
        assert not browser.log("browser"), "the browser complains"
        assert is_painted(browser, "#hour") and is_painted(browser, "#timeline")
        assert browser.run("return document.querySelector('#vgpus').innerText").count("30 %") == 1
        assert not browser.run("return document.querySelector('.tenant')"), "programs are shown without the token"
        ready = int(browser.run(f"return {READY}"))
        assert ready < 20000, ready
        print(f"  {total / 1024:.0f} KiB at the first view, ready after {ready} ms")


def test_the_page_follows(node):
    with page(node) as browser:
        browser.run("document.querySelectorAll('#vgpus tbody tr').forEach(row => { row.isOld = true; })")
        node.virgate("create", "zeta", "--memory", "64M")
        browser.wait("document.querySelector('#vgpus').innerText.includes('zeta')", "the new vGPU")
        browser.wait("document.querySelector('#events').innerText.includes('zeta')", "its event")
        kept = "[...document.querySelectorAll('#vgpus tbody tr')].filter(row => row.isOld).length"
        assert browser.run(f"return {kept}") == 2
        browser.run("document.querySelector('#pause').click()")
        assert browser.run("return document.querySelector('#live').innerText") == "paused"
        requested(browser)
        node.virgate("rm", "zeta")
        # in this time the page would ask the exporter twice, if it were not paused
        browser.run("return new Promise(resolve => setTimeout(resolve, 5000))")
        assert not requested(browser)
        assert browser.run("return document.querySelector('#vgpus').innerText.includes('zeta')")
        browser.run("document.querySelector('#pause').click()")
        browser.wait("!document.querySelector('#vgpus').innerText.includes('zeta')", "the removed vGPU")
        browser.wait("document.querySelector('#live').innerText === 'live'", "the page is live again")


def test_notes_below_the_tables_follow(node):
    with page(node) as browser:
        # Adds a note "7 more" to each answer. The exporter writes such notes if there are hundreds of vGPUs.
        browser.run("""
            const load = window.fetch;
            window.more = 7;
            window.fetch = async (url, options) => {
                const answer = await load(url, options);
                if (new URL(url).pathname !== location.pathname)
                    return answer;
                const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
                for (const id of window.more ? ['vgpus', 'hour'] : [])
                    fresh.getElementById(id).insertAdjacentHTML('beforeend', `<p class="note">${window.more} more</p>`);
                return new Response(fresh.documentElement.outerHTML);
            };
            document.querySelectorAll('#vgpus tbody tr').forEach(row => { row.isOld = true; })""")
        notes = "[...document.querySelectorAll('#vgpus > .note, #hour > .note')].map(note => note.innerText).join()"
        for more, shown in ((7, "7 more,7 more"), (8, "8 more,8 more"), (0, "")):
            browser.run("window.more = arguments[0]", more)
            browser.wait(f"{notes} === '{shown}'", f"the notes {shown!r}")
        assert browser.run("return [...document.querySelectorAll('#vgpus tbody tr')].every(row => row.isOld || "
                           "row.innerText.includes('train'))"), "rows without a change were replaced"
        assert browser.run("return document.querySelectorAll('#hour canvas').length > 1"), "the charts are gone"


def test_a_daemon_that_ends_is_shown(node):
    with page(node) as browser:
        node.virgate("shutdown")
        browser.wait("document.querySelector('.problem')?.innerText.startsWith('No figures')", "the problem")
        browser.wait("document.querySelector('#live').innerText.startsWith('not live since')", "the state")
        node.virgate("ps")
        browser.wait("document.querySelector('#live').innerText === 'live'", "the daemon's return")
        assert not browser.run("return document.querySelector('.problem')")
        browser.wait("document.querySelector('#vgpus').innerText.includes('train')", "the figures")


def test_programs_are_text(node):
    with page(node, "full") as browser:
        browser.wait("document.querySelector('.tenant')?.innerText.includes('<b>x')", "the program")
        assert not browser.run("return document.querySelector('tbody b')")
        browser.wait("document.querySelector('#live').innerText === 'live'", "the page is live")
        assert not browser.log("browser"), "the browser complains"


def check_narrow(browser, width):
    browser.wait(f"document.documentElement.scrollWidth <= {width}", f"nothing is wider than {width} pixels")
    outside = browser.run("""return [...document.querySelectorAll('#gpus *, #vgpus *, #events *, header *, figcaption')]
        .filter(one => one.getBoundingClientRect().right > arguments[0] + 1 && one.getBoundingClientRect().width > 1 &&
            !one.closest('thead')).map(one => one.outerHTML)""", width)
    assert not outside, outside[:3]
    small = browser.run("""return [...document.querySelectorAll('button, select, nav a')]
        .filter(one => one.getBoundingClientRect().height < 24).map(one => one.outerHTML)""")
    assert not small, small


def test_phone_and_desktop_in_light_and_dark(node):
    backs = set()
    with page(node, width=390, height=844) as browser:
        for width, height in ((390, 844), (320, 568), (1280, 900)):
            browser.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                        mobile=width < 500)
            check_narrow(browser, width)
        for scheme in ("light", "dark"):
            browser.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            backs.add(browser.run("return getComputedStyle(document.body).backgroundColor"))
            for front in ("--text", "--quiet", "--link", "--warn", "--alert"):
                for back in ("--card", "--back"):
                    ratio = contrast(browser, front, back)
                    assert ratio >= 4.5, (scheme, front, back, ratio)
            for front in ("--bar", *(f"--s{i}" for i in range(1, 9))):
                assert contrast(browser, front, "--card") >= 3, (scheme, front)
            assert is_painted(browser, "#hour")
        assert len(backs) == 2, backs


def test_screen_reader(node):
    for width in (1280, 390):
        with page(node, "full", width=width, height=844) as browser:
            seen = tree(browser)
            for role in ("table", "button", "combobox", "slider", "image", "navigation", "region", "link", "meter"):
                names = [name for found, name in seen if found == role]
                assert names and all(names), (width, role, names)
            roles = [role for role, _ in seen]
            assert roles.count("heading") >= 5 and roles.count("main") == 1 and roles.count("status") >= 1
            assert ("columnheader", "Memory") in seen and ("rowheader", "train") in [
                (role, name.split()[0]) for role, name in seen if role == "rowheader" and name], width
            assert roles.count("cell") + roles.count("gridcell") > 30, (width, roles.count("cell"))
        node.virgate("rm", "--force", "train")
        node.virgate("rm", "infer")


def focus(browser):
    return browser.run("const one = document.activeElement; return one.id || one.className || one.textContent")


def test_keys(node):
    with page(node) as browser:
        order = []
        for _ in range(40):
            browser.press("Tab")
            order.append(focus(browser))
            outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or browser.run("return document.activeElement === document.body"), order[-1]
            if order[-1] == "kind":
                break
        assert order[0] == "skip" and "pause" in order and "chart" in order and order[-1] == "kind", order
        browser.run("document.querySelector('#pause').focus()")
        value = "document.querySelector('.chart[role=slider]').ariaValueText"
        browser.wait(f"/train [0-9.]+ MiB/.test({value})", "the memory of the program")
        browser.press("Space")  # while the page is paused, the figures do not change
        assert browser.run("return document.querySelector('#pause').ariaPressed") == "true"
        browser.run("document.querySelector('.chart[role=slider]').focus()")
        last = browser.run(f"return {value}")
        assert last.startswith("now: "), last
        browser.press("Home")
        first = browser.run(f"return {value}")
        assert re.match(r"\d\d:\d\d: ", first), first
        browser.press("Right", "End")
        assert browser.run(f"return {value}").partition(": ")[2] == last.partition(": ")[2]
        browser.run("const kind = document.querySelector('#kind'); kind.value = 'refused'; "
                    "kind.dispatchEvent(new Event('change'))")
        shown = browser.run("return [...document.querySelectorAll('#events tbody tr')].filter(row => !row.hidden)"
                            ".map(row => row.dataset.kind)")
        assert set(shown) == {"refused"} and " of " in browser.run("return document.querySelector('#shown').innerText")


def test_without_a_script(node):
    with page(node, wants_ready=False, runs_scripts=False) as browser:
        # Without scripts, the browser driver cannot read the page by its own scripts either. So it requests a snapshot
        # of the document and its layout.
        text = browser.cdp("DOMSnapshot.captureSnapshot", computedStyles=["display"])
        words = [text["strings"][i] for i in text["documents"][0]["layout"]["text"] if i >= 0]
        shown = " ".join(words)
        for part in ("train", "infer", "512 MiB", "30 %", "refused", "reload it to see new ones"):
            assert part in shown, (part, shown)
        assert "Pause" not in shown and "Single turns" not in shown
        wait_for(lambda: reload_has(browser, "Memory charged on GPU 0", "all vGPUs"), "the figures of the last hour")


def reload_has(browser, *parts):
    browser.ask("POST", "/refresh", {})
    text = browser.cdp("DOMSnapshot.captureSnapshot", computedStyles=[])
    shown = " ".join(text["strings"][i] for i in text["documents"][0]["layout"]["text"] if i >= 0)
    return all(part in shown for part in parts)


def test_without_the_plotting_library(node):
    with page(node, wants_ready=False) as browser:
        browser.cdp("Network.enable")
        browser.cdp("Network.setBlockedURLs", urls=["*/plot.js"])
        browser.ask("POST", "/refresh", {})
        browser.wait(READY, "the page is ready")
        browser.wait("document.querySelector('#hour details[open] td')?.checkVisibility()", "the figures as a table")
        assert not browser.run("return document.querySelector('canvas')")
        browser.wait("document.querySelector('#live').innerText === 'live'", "the page is live")


def test_a_clock_that_jumps(node):
    with page(node) as browser:
        times = browser.run("""return import('/charts.js').then(charts => {
            const gpu_ns = [1e9, 2e9, 3e9, 4e9, 5e9];
            const series = [{vgpu: 'train', device: 0, charged: gpu_ns, gpu_ns}];
            charts.setHistory({times: [1000, 1005, 1010, 400, 405], series});
            return [charts.lastHistory().times, charts.timeWindow(), charts.percents([0, 10, 5, 10], [0, 5e9, 6e9, 1])];
        })""")
        assert times == [[400, 405], [345000, 405000], [None, 50, None, None]], times
        assert not browser.log("browser"), "the browser complains"


OPEN_TURNS = "document.querySelector('#turns summary').click()"
BOTH_TURNS = """[...document.querySelectorAll('#turns-table tbody tr')].filter(row =>
    ['small', 'large'].includes(row.cells[0].innerText) && Number(row.cells[2].innerText) > 5).length === 2"""


@contextlib.contextmanager
def turns(node, path="", **options):
    """Opens the page of a node with two programs that take turns on GPU 0. Opens the part that shows each turn."""
    with page(node, path, prepare=contend, **options) as browser:
        requested(browser)
        browser.run(OPEN_TURNS)
        browser.wait(BOTH_TURNS, "the turns of both vGPUs")
        yield browser


def asked_for_turns(browser):
    return [url for url in requested(browser) if "turns" in url]


def test_single_turns(node):
    with turns(node) as browser:
        browser.wait_for_frame()
        assert is_painted(browser, "#turns-chart")
        state = "document.querySelector('#turns-state').innerText"
        note = "No turns on GPU 1: programs take turns where vGPUs with shares have work."
        browser.wait(f"{state} === '{note}'", "a note about the other GPU")
        rows = browser.run("""return [...document.querySelectorAll('#turns-table tbody tr')].map(row =>
            [...row.cells].map(cell => cell.innerText))""")
        for row in rows:
            assert row[1] == "0" and re.fullmatch(r"\d+\.\d ms", row[3]) and row[6] == "–", row
            assert re.fullmatch(r"\d+ %", row[4]) and re.fullmatch(r"\d+ %", row[5]), row
        assert asked_for_turns(browser) and not browser.log("browser"), "the browser complains"
        browser.run(OPEN_TURNS)
        browser.run("return new Promise(resolve => setTimeout(resolve, 2500))")  # the page asks every second
        asked_for_turns(browser)
        browser.run("return new Promise(resolve => setTimeout(resolve, 2500))")
        assert not asked_for_turns(browser), "a page asks for turns that it does not show"
        browser.run(OPEN_TURNS)
        browser.wait(f"{state} !== '' && {BOTH_TURNS}", "the turns are followed again")


def test_single_turns_of_a_job(node):
    with page(node, prepare=contend_with_job) as browser:
        browser.run(OPEN_TURNS)
        browser.wait("""[...document.querySelectorAll('#turns-table tbody tr')]
            .filter(row => row.cells[2].innerText > 5).map(row => row.cells[0].innerText)
            .join() === 'job.0,job.1,small'""",
                     "turns of the job on both GPUs")
        browser.wait("document.querySelector('#turns-state').innerText === ''", "no note about a GPU without turns")


def test_single_turns_with_the_token_and_a_daemon_that_ends(node):
    with turns(node, "full") as browser:
        browser.wait("[...document.querySelectorAll('#turns-table tbody tr')].some(row => row.cells[6].innerText > 0)",
                     "launches")
        node.virgate("shutdown")
        browser.wait("document.querySelector('#turns-state').innerText.startsWith('No turns: ')", "the daemon's end")


def test_single_turns_by_keys_on_a_phone(node):
    with turns(node, width=390, height=844) as browser:
        check_narrow(browser, 390)
        # A paused page keeps its turns, so the chosen turn stays.
        browser.run("document.querySelector('#pause').click()")
        browser.wait("document.querySelector('#live').innerText === 'paused'", "the pause")
        browser.run("return new Promise(resolve => setTimeout(resolve, 1500))")  # an answer may still come
        browser.run("document.querySelector('#turns-chart').focus()")
        value, seen = "document.querySelector('#turns-chart').ariaValueText", []
        for key in ("End", "Left", "Left", "Left", "Left", "Left", "Left"):
            browser.press(key)
            seen.append(browser.run(f"return {value}"))
        what = r"(small|large) (has|ends its turn on|is alone on) GPU 0 for \d+\.\d ms"
        assert all(re.fullmatch(what, text) for text in seen) and len({text.split()[0] for text in seen}) == 2, seen
        browser.press("Right")
        assert browser.run(f"return {value}") == seen[-2]
        assert browser.run("return document.querySelector('#turns-moment').innerText") == seen[-2]
        length = "document.querySelector('#turns-length')"
        browser.run(f"{length}.value = '200'; {length}.dispatchEvent(new Event('change'))")
        names = [name for role, name in tree(browser) if role in ("slider", "region", "table", "combobox")]
        for name in ("Turns on the GPUs: the arrow keys go from turn to turn", "Turns of each vGPU as a table",
                     "Show the last"):
            assert name in names, (name, names)


def test_single_turns_without_the_plotting_library(node):
    with page(node, wants_ready=False, prepare=contend) as browser:
        browser.cdp("Network.enable")
        browser.cdp("Network.setBlockedURLs", urls=["*/plot.js"])
        browser.ask("POST", "/refresh", {})
        browser.wait(READY, "the page is ready")
        browser.run(OPEN_TURNS)
        browser.wait(BOTH_TURNS, "the turns of both vGPUs")
        assert browser.run("return document.querySelector('#turns-chart').hidden")


MISSING = "document.querySelector('#turns-state').innerText.includes('missing')"


def test_turns_after_a_pause_are_not_missing(node):
    with page(node) as browser:
        browser.run("""
            const load = window.fetch;
            let now = 5e9;
            Object.assign(window, {asked: [], since: 0, loses: false, losesNext: false});
            window.fetch = async (url, options) => {
                if (new URL(url).pathname !== '/api/turns')
                    return load(url, options);
                const after = Number(new URL(url).searchParams.get('after')), lost = after > 0 && (loses || losesNext);
                asked.push(after);
                losesNext = false;
                loses &&= after > 0;
                now += 1e9;
                return Response.json({since_ns: since, now_ns: now, next: after + 7, more: false, lost, phases: []});
            };""" + OPEN_TURNS)
        browser.wait("asked.length >= 2 && asked[0] === 0 && asked[1] === 7", "the first answers")
        browser.run("document.querySelector('#pause').click(); asked = []; loses = true;")
        # The page must make no request while it is paused.
        browser.run("return new Promise(resolve => setTimeout(resolve, 2500))")
        assert not browser.run("return asked")
        browser.run("document.querySelector('#pause').click()")
        browser.wait("asked.length >= 2", "answers after the pause")
        assert browser.run("return asked.slice(0, 2)") == [0, 7] and not browser.run(f"return {MISSING}")
        browser.run("asked = []; since = 1e9; losesNext = true;")
        browser.wait("asked.length >= 2", "answers of another recording")
        assert not browser.run(f"return {MISSING}")
        browser.run("losesNext = true")
        browser.wait(MISSING, "the note about a gap in one recording")


def test_many_turns_and_hostile_names_are_bounded(node):
    with page(node) as browser:
        browser.run("""
            const load = window.fetch, names = ['<img src=x onerror=window.isBad=1>', 'train'];
            window.answers = 0;
            window.fetch = async (url, options) => {
                if (new URL(url).pathname !== '/api/turns')
                    return load(url, options);
                const at = i => 5e9 + i * 1e5;
                return Response.json({since_ns: 0, now_ns: 6e9, next: ++window.answers, more: true, lost: true,
                    phases: Array.from({length: 1024}, (_, i) => ({vgpu: names[i % 2], device: i % 3, turn: i,
                        phase: i % 5 ? 'holds' : 'later', begin_ns: at(i), end_ns: at(i + 1), launches: 2 ** 62}))});
            };""" + OPEN_TURNS)
        browser.wait("window.answers >= 24", "24 answers")
        table = browser.run("return document.querySelector('#turns-table').innerText")
        turns_shown = sum(map(int, re.findall(r"^(?:<img|train).*?\t\d\t(\d+)\t", table, re.M)))
        assert "<img src=x" in table and 10000 < turns_shown <= 20000, table
        state = browser.run("return document.querySelector('#turns-state').innerText")
        assert "Some turns of the last seconds are missing." in state, state
        assert browser.run("return window.isBad === undefined")
        assert not browser.run("return document.querySelector('#turns img')")
        assert not browser.log("browser"), "the browser complains"


if __name__ == "__main__":
    run_tests(sys.modules[__name__], *sys.argv[1:])
