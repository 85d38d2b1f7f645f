"""The pages of the site, under their paths in the repository, so that links between them hold in both."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "mkbo_plugins/docs/**/*.md", "mkbo_plugins/docs/**/*.png", "tutorials/images/*")


class Notebook(File):
    """A notebook, which is a page, though its name does not end in ``.md``."""

    def is_documentation_page(self) -> bool:
        """Return that it is one."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the pages in place of what MkDocs found in its one folder."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    paths = [path.relative_to(ROOT) for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    pages = [File(path.as_posix(), str(ROOT), config.site_dir, config.use_directory_urls) for path in paths]
    tutorials = [file for path in sorted(ROOT.glob("tutorials/*.ipynb")) for file in _notebook(path, config)]
    return Files([*theme, *pages, *tutorials])


def _notebook(path: Path, config: MkDocsConfig) -> Iterator[File]:
    """Return a stored notebook as Markdown, and its pictures; it is not run."""
    names = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    stored = nbformat.read(path, as_version=4)
    stored.metadata.language_info = {"name": "python"}
    text, made = MarkdownExporter().from_notebook_node(stored, names)
    text = text.replace('<table border="1" class="dataframe">', "<table>")  # which the theme draws as its own
    place = path.relative_to(ROOT)
    yield Notebook.generated(config, place.as_posix(), content=text)
    for name, data in made["outputs"].items():
        yield File.generated(config, (place.parent / name).as_posix(), content=data)
