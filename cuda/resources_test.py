"""Tests of resources.py, on reports as ptxas writes them."""

import contextlib
import importlib.util
import io
import pathlib
import tempfile
import unittest

# By its path: Python's own module `resource` has nearly the same name.
SPECIFICATION = importlib.util.spec_from_file_location("resources", pathlib.Path(__file__).with_name("resources.py"))
resources = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(resources)

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5scalePKfPfi' for 'sm_80'
ptxas info    : Function properties for _Z6helperf
    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for _Z5scalePKfPfi
    {frame} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 128 bytes smem, 384 bytes cmem[0]
ptxas info    : Compiling entry function '_Z5scalePKfPfi' for 'sm_90a'
ptxas info    : Function properties for _Z5scalePKfPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
"""
SCALE_80 = ("scale", "sm_80")
SCALE_90 = ("scale", "sm_90a")


def table_of(frame: int = 0, stores: int = 0, loads: int = 0) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "kernels", "scale.cu.o.ptxas")
        report.parent.mkdir()
        report.write_text(REPORT.format(frame=frame, stores=stores, loads=loads), encoding="utf-8")
        return resources.make_table(resources.read_reports(pathlib.Path(folder)))


def check(table: dict, text: str) -> tuple[int, str]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = resources.check(table, text)
    return status, output.getvalue()


class ReadReports(unittest.TestCase):
    def test_finds_the_figures_of_each_architecture(self):
        table = table_of(frame=24, stores=4, loads=12)
        self.assertEqual(table[SCALE_80], resources.Usage(40, 128, 24, 4, 12))
        self.assertEqual(table[SCALE_90], resources.Usage(32, 0, 0, 0, 0))

    def test_shortens_names(self):
        self.assertEqual(resources.shorten("void a::b::(anonymous namespace)::k<(b::F)1, c::R>(b::P const*)"),
                         "k<(F)1, R>")


class Check(unittest.TestCase):
    def test_passes_on_the_table_that_was_written(self):
        table = table_of()
        self.assertEqual(check(table, resources.render(table, "")),
                         (0, "2 kernels and architectures, 0 with spills\n"))

    def test_fails_on_a_spill_that_nothing_explains(self):
        table = table_of(frame=8, stores=8, loads=8)
        status, output = check(table, resources.render(table, ""))
        self.assertEqual(status, 1)
        self.assertIn("scale on sm_80 spills 8 bytes of stores and 8 of loads, which nothing explains", output)

    def test_passes_on_an_explained_spill(self):
        table = table_of(frame=8, stores=8, loads=8)
        self.assertEqual(check(table, resources.render(table, "- `scale` sm_80: outside of the loop"))[0], 0)

    def test_fails_on_an_explanation_that_has_lost_its_spill(self):
        table = table_of()
        status, output = check(table, resources.render(table, "- `scale` sm_80: outside of the loop"))
        self.assertEqual(status, 1)
        self.assertIn("does not spill, but is explained", output)

    def test_fails_on_another_set_of_kernels(self):
        text = resources.render(table_of(), "")
        status, output = check(table_of(), text.replace("`scale`", "`other`"))
        self.assertEqual(status, 1)
        self.assertIn("scale is not in the table", output)
        self.assertIn("other is in the table, but no such kernel was compiled", output)


if __name__ == "__main__":
    unittest.main()
