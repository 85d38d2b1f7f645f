"""Text of users in pages and pictures, which do not hold every character."""

import re

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML file may have, SVG among them (https://www.w3.org/TR/xml/#charsets)."""


def writable(text: str) -> str:
    """Return a text with the characters that no page or picture may have as Python writes them."""
    return _NO_XML.sub(lambda found: repr(found[0])[1:-1], text)
