"""Opens real reports in a headless Chromium: no console error, nothing fetched, the content there, keys work.

    python3 reports/html/browser/page_test.py BROWSER MTPCHECK GOLDEN
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from browser import Browser

BROWSER, TOOL, GOLDEN = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
TINY = os.path.join(GOLDEN, "tiny-hy4")
CHECKPOINT = os.path.join(TINY, "checkpoint-bf16")
PASSAGE = os.path.join(TINY, "traces", "passage-00.safetensors")


def tool(*arguments, exit_code=0):
    run = subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == exit_code, run.stdout + run.stderr


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.browser = cls.enterClassContext(Browser(BROWSER))

    def page_of(self, *verb, exit_code=0):
        """Runs a verb, renders its report, opens it, and returns the report as JSON."""
        report = os.path.join(self.folder, verb[0] + ".h5")
        tool(*verb, "--report", report, exit_code=exit_code)
        tool("report", "html", report, "--out", report + ".html")
        tool("report", "json", report, "--out", report + ".json")
        self.browser.open(report + ".html")
        self.assertEqual(self.browser.value("document.documentElement.dataset.ready"), "true")
        with open(report + ".json", encoding="utf-8") as file:
            return json.load(file)

    def tearDown(self):
        if not self._testMethodName.startswith("test_a_broken"):
            self.assertEqual(self.browser.errors, [])
            self.assertEqual([url for url in self.browser.fetched if not url.startswith(("file:", "data:"))], [])

    def text(self, selector):
        return self.browser.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def test_a_broken_page_is_noticed(self):
        path = os.path.join(self.folder, "broken.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write("<script>console.error('told'); nothing.there;</script><img src='http://localhost:9/x.png'>")
        self.browser.open(path)
        self.assertIn("['told']", self.browser.errors)
        self.assertTrue(any("nothing is not defined" in error for error in self.browser.errors))
        self.assertIn("http://localhost:9/x.png", self.browser.fetched)

    def test_a_comparison_that_fails(self):
        report = self.page_of("compare", CHECKPOINT, "--inputs", PASSAGE, "--candidate", "reference",
                              "--candidate-rope", "interleaved", exit_code=1)
        self.assertIn("FAIL", self.text("#verdict .verdict"))
        self.assertIn("q_rope: the candidate matches interleaved RoPE", self.text("#verdict"))
        rows = self.browser.value("[...document.querySelectorAll('tr.stage')].map((row) => row.cells[0].innerText)")
        self.assertEqual(rows, [stage["name"] for stage in report["stages"]])
        bars = self.browser.value("document.querySelectorAll('tr.stage .bar').length")
        self.assertGreater(bars, 50)
        names = self.browser.value("[...document.querySelectorAll('.heat li')].map((item) => item.innerText)")
        self.assertIn("q_rope", names)
        coloured = self.browser.value(
            "(() => { const c = document.querySelector('.heat canvas');"
            " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            " return new Set(Array.from({length: d.length / 4}, (_, i) => d.slice(4 * i, 4 * i + 4).join())).size; })()")
        self.assertGreater(coloured, 10)
        self.assertIn("half-split", self.text("#conventions"))

    def test_a_stage_opens_by_keyboard_with_histogram_and_worst_elements(self):
        report = self.page_of("compare", CHECKPOINT, "--tokens", "70", "--candidate", "reference",
                              "--candidate-rope", "interleaved", exit_code=1)
        first = next(i for i, stage in enumerate(report["stages"]) if stage["name"] == "q_rope")
        self.browser.value(f"document.querySelectorAll('tr.stage')[{first - 1}].focus()")
        self.browser.press("ArrowDown")
        self.browser.press("Enter")
        self.assertGreater(self.browser.value("document.querySelectorAll('.details svg rect').length"), 10)
        self.assertEqual(self.browser.value("document.querySelectorAll('.details table tbody tr').length"), 10)
        self.assertIn("Worst elements", self.text(".details"))
        self.browser.value("document.querySelector('.heat canvas').focus()")
        self.browser.press("ArrowRight")
        self.assertIn("row 1: ", self.text("#heat [aria-live]"))
        self.browser.press("Enter")

    def test_light_and_dark(self):
        self.page_of("compare", CHECKPOINT, "--tokens", "4", "--candidate", "reference")
        background = "getComputedStyle(document.body).backgroundColor"
        colours = []
        for scheme in ("light", "dark"):
            self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            colours.append(self.browser.value(background))
        self.browser.value("document.getElementById('theme').click()")
        colours.append(self.browser.value(background))
        self.assertEqual(colours[0], colours[2])
        self.assertNotEqual(colours[0], colours[1])

    def test_an_audit_shows_the_coverage_of_the_experts(self):
        report = self.page_of("audit", CHECKPOINT, "--loader", "vllm")
        cells = self.browser.value("document.querySelectorAll('#coverage .cell').length")
        self.assertEqual(cells, len(report["tables"]["coverage"]))
        self.assertEqual(self.browser.value("document.querySelectorAll('#coverage .cell.none').length"), 0)

    def test_a_missing_expert_stands_out(self):
        broken = os.path.join(self.folder, "broken")
        tool("faults", "inject", os.path.join(TINY, "checkpoint-split"), "--fault", "expert-missing", "--out", broken)
        self.page_of("audit", broken, "--loader", "vllm", exit_code=1)
        missing = self.browser.value("[...document.querySelectorAll('#coverage .cell.none')].map((cell) => cell.title)")
        self.assertEqual(missing, ["expert 3: 0.0 %"] * 3)
        self.assertIn("expert 3", self.text("#findings"))

    def test_acceptance_curves(self):
        self.page_of("accept", CHECKPOINT, "--traces", PASSAGE, "--depth", "2")
        self.assertGreaterEqual(self.browser.value("document.querySelectorAll('#acceptance svg circle').length"), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
