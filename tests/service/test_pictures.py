# SPDX-License-Identifier: MIT
"""The pictures of docs/ are those that `./run pictures` made, and the pages tell the figures that belong to them."""
import hashlib
import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


class Pictures(unittest.TestCase):
    def test_the_demos_is_of_the_demo_whose_figures_are_told(self):
        demo = json.loads((DOCS / "demo.json").read_text())
        self.assertEqual(hashlib.sha256((DOCS / "demo.png").read_bytes()).hexdigest(), demo["picture_sha256"],
                         "docs/demo.png is another picture: ./run pictures demo")
        self.assertEqual(demo["failures"], [])
        readme = (ROOT / "README.md").read_text()
        rms, unlocked = demo["residual_rms_nm"], demo["unlocked_rms_nm"]
        self.assertIn(f"| {rms['x']:.2f} / {rms['y']:.2f} nm ({unlocked['x']:.0f} / {unlocked['y']:.0f} nm) | `./run demo --flat` |",
                      readme)
        self.assertIn(f"(limit {demo['step_limit_nm']:.0f}) | {demo['reconnect_s']:.2f} s; {demo['largest_step_nm']:.1f} nm | "
                      "`./run demo --flat` |", readme)

    def test_each_is_made_by_a_name_of_run_pictures(self):
        maker = (ROOT / "tools/pages/make-pictures").read_text()
        made = {"demo.png": "demo", "benchmarks": "benchmarks", "control": "control", "use": "page"}
        for picture in [*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")]:
            name = made[picture.relative_to(DOCS).parts[0]]
            self.assertRegex(maker, rf"(?m)^    {name}\)")
        pages = "".join(page.read_text() for page in [ROOT / "README.md", *DOCS.rglob("*.md")])
        for picture in [*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")]:
            self.assertTrue(re.search(re.escape(picture.name), pages), f"no page shows {picture}")


if __name__ == "__main__":
    unittest.main()
