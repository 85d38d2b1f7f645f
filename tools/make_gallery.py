"""Make the pictures of the gallery by the lines beneath them: ``python tools/make_gallery.py``; needs Chromium."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from mkbo_plugins.cli import app

PAGE = Path(__file__).resolve().parents[1] / "mkbo_plugins" / "docs" / "gallery" / "index.md"


def run(folder: Path) -> None:
    """Run the lines of the page in a folder: those at its end, which make table and campaign, before all others."""
    text = PAGE.read_text(encoding="utf-8")
    *pictures, beginning = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for block in (beginning, *pictures):
            exec(compile(block, str(PAGE), "exec"), names)
        for command in re.findall(r"```sh\nmkbo (.*?)\n```", text):
            app(command.split(), standalone_mode=False)
    finally:
        os.chdir(before)


def main() -> None:
    """Make all pictures anew; that of the HTML page is what a browser shows first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder)
        window = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1100"]
        page = (folder / "report.html").as_uri()
        subprocess.run(["chromium", *window, f"--screenshot={folder / 'report.png'}", page], check=True)
        for picture in sorted(folder.glob("*.png")):
            shutil.copyfile(picture, PAGE.parent / picture.name)
            print(PAGE.parent / picture.name)


if __name__ == "__main__":
    main()
