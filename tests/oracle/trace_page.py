#!/usr/bin/env python3
"""Opens the page of a trace, and that of a roofline, in headless Chromium: trace_page.py <binary> [screenshot.png].

Gaps planted in the trace must be listed with their lengths and neighbours; search, zoom and a click must do what they say.
Needs Debian's chromium and chromium-driver, and selenium from PyPI. Skips itself, with status 77, where one is missing.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from browser import open_browser  # first: it skips where selenium is missing
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

BINARY = sys.argv[1]


def planted():
    """Nodes of 100 us with 10 us between them, but for two gaps; a nested slice; a name that is not harmless."""
    events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "host"}},
              {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 1"}}]
    now = 0
    for at in range(100):
        events.append({"ph": "X", "name": f"layer {at} norm", "pid": 1, "tid": 1, "ts": now, "dur": 100,
                       "args": {"graph": "step", "bytes": 4096}})
        now += 100 + {40: 900, 70: 2500}.get(at, 10)
    events.append({"ph": "X", "name": "inside", "pid": 1, "tid": 1, "ts": 20, "dur": 30, "args": {}})
    events.append({"ph": "X", "name": "</script><script>alert(1)</script>", "pid": 1, "tid": 1, "ts": now, "dur": 50, "args": {}})
    return json.dumps(events)


def check_trace(browser, folder, screenshot):
    source, page = folder / "planted.json", folder / "planted.html"
    source.write_text(planted())
    subprocess.run([BINARY, "trace", str(source), "-o", str(page)], check=True)
    browser.get(page.as_uri())
    find = lambda name: browser.find_element(By.ID, name)
    until = lambda what, condition: WebDriverWait(browser, 20).until(lambda _: condition(), what)
    shown = lambda: find("shown").text
    until("nothing was drawn", lambda: "102 slices" in shown())
    gaps = [line.text for line in browser.find_elements(By.CSS_SELECTOR, "#gaps li")]
    assert len(gaps) == 10, gaps
    assert gaps[0].startswith("2.500 ms at ") and gaps[0].endswith("layer 70 norm | layer 71 norm"), gaps[0]
    assert gaps[1].startswith("900.0 us at ") and gaps[1].endswith("layer 40 norm | layer 41 norm"), gaps[1]
    painted = browser.execute_script(
        "const v = document.getElementById('view'), d = v.getContext('2d').getImageData(0, 0, v.width, v.height).data;"
        "let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n;")
    assert painted > 10000, painted
    whole = shown()
    find("closer").click()
    until("zooming in changed nothing", lambda: shown() != whole)
    find("all").click()
    until("the whole trace did not come back", lambda: shown() == whole)
    browser.find_elements(By.CSS_SELECTOR, "#gaps li")[0].click()
    until("a gap was not shown", lambda: shown() != whole)
    find("search").send_keys("LAYER 7")
    until("no match", lambda: find("found").text == "11 found")
    find("search").send_keys(Keys.ENTER)
    until("the first match was not shown", lambda: find("details").text.startswith("layer 7 norm"))
    assert "graph: step" in find("details").text and "100.0 us long" in find("details").text, find("details").text
    find("search").send_keys(Keys.ENTER)
    until("the second match was not shown", lambda: find("details").text.startswith("layer 70 norm"))
    assert find("found").text == "2 of 11"
    find("search").clear()
    find("search").send_keys("script")
    find("search").send_keys(Keys.ENTER)
    until("the last slice was not shown", lambda: find("details").text.startswith("</script><script>alert(1)"))
    find("search").clear()
    find("search").send_keys("layer 50")
    find("search").send_keys(Keys.ENTER)
    until("the slice was not shown", lambda: find("details").text.startswith("layer 50 norm"))
    # It stands in the middle, right of the names of tracks; a click there chooses it again.
    browser.execute_script("document.getElementById('details').textContent = ''")
    view = find("view")
    ActionChains(browser).move_to_element_with_offset(view, 65, -view.size["height"] // 2 + 28).click().perform()
    until("a click chose nothing", lambda: find("details").text.startswith("layer 50 norm"))
    find("all").click()
    if screenshot:
        find("search").clear()
        browser.save_screenshot(screenshot)
    return len(gaps)


def check_roofline(browser, folder):
    run, page = folder / "run.json", folder / "roofline.html"
    subprocess.run([BINARY, "run", "--plain", "Once", "-n", "20", "--device", "host", "--trace", str(run)], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([BINARY, "roofline", str(run), "--device", "host", "--html", str(page)], check=True, stdout=subprocess.DEVNULL)
    browser.get(page.as_uri())
    rows = browser.find_elements(By.CSS_SELECTOR, "#kernels tr")
    dots = browser.find_elements(By.CSS_SELECTOR, "circle.kernel")
    assert len(rows) > 8 and len(dots) == len(rows) - 1, (len(rows), len(dots))
    for dot in dots:
        assert dot.is_displayed() and 0 < dot.rect["x"] < 1000, dot.rect
    assert browser.find_elements(By.CSS_SELECTOR, "#advice li")
    return len(dots)


def main():
    browser = open_browser(1180, 800)
    try:
        with tempfile.TemporaryDirectory() as folder:
            gaps = check_trace(browser, pathlib.Path(folder), sys.argv[2] if len(sys.argv) > 2 else None)
            kernels = check_roofline(browser, pathlib.Path(folder))
        errors = [entry["message"] for entry in browser.get_log("browser")]
        assert not errors, errors
    finally:
        browser.quit()
    print(f"trace page: {gaps} gaps, search, zoom and a click; roofline page: {kernels} kernels")


main()
