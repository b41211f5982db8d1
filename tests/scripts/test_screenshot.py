#!/usr/bin/env python3
"""test_screenshot.py ROOT: tests how scripts/screenshots draws the text and the colours of a terminal."""

import importlib.machinery
import importlib.util
import sys
import xml.etree.ElementTree

sys.dont_write_bytecode = True


def load(path):
    loader = importlib.machinery.SourceFileLoader("screenshots", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("screenshots", loader))
    loader.exec_module(module)
    return module


def draw(module, *lines):
    """Draws lines of a terminal. Returns the attributes of the rectangles and of the texts in the picture. Those of a
    text include the key "text"."""
    tree = xml.etree.ElementTree.fromstring(module.svg(lines, "a <title>"))
    name = "{http://www.w3.org/2000/svg}"
    assert tree.find(f"{name}title").text == "a <title>"
    return [node.attrib for node in tree.iter(f"{name}rect")][1:], \
        [node.attrib | {"text": node.text} for node in tree.iter(f"{name}text")]


def check(module):
    width, margin = module.CELL_WIDTH, module.MARGIN
    rects, texts = draw(module, "ab  c d", "\x1b[1;32mgreen\x1b[0m <&>", "\x1b[7mback")
    assert [text["text"] for text in texts] == ["ab", "c d", "green", "<&>", "back"], texts
    assert [int(text["x"]) for text in texts] == [margin + at * width for at in (0, 4, 0, 6, 0)], texts
    assert [int(text["textLength"]) for text in texts] == [length * width for length in (2, 3, 5, 3, 4)], texts
    assert texts[2]["fill"] == module.NORMAL[2] and texts[2]["font-weight"] == "bold", texts
    assert texts[3]["fill"] == module.TEXT and "font-weight" not in texts[3], texts
    assert texts[4]["fill"] == module.BACKGROUND and rects[0]["fill"] == module.TEXT, (texts, rects)
    # A style stays in effect until the next escape sequence, also beyond the end of a line.
    rects, texts = draw(module, "\x1b[30;42m a \x1b[39m", "b\x1b[0m")
    assert [rect["width"] for rect in rects] == [str(3 * width), str(width)], rects
    assert texts[0]["fill"] == module.NORMAL[0] and texts[1]["fill"] == module.TEXT, texts
    assert int(texts[0]["x"]) == margin + width, texts
    try:
        draw(module, "\x1b[38;5;1mx")
    except SystemExit as stopped:
        assert "escape sequence 38" in str(stopped), stopped
    else:
        raise AssertionError("an unknown escape sequence was ignored")


if __name__ == "__main__":
    check(load(f"{sys.argv[1]}/scripts/screenshots"))
    print("1 passed, 0 failed, 0 skipped")
