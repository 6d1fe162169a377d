"""How text of unknown origin is shown in a message: on one line, printable, and never long."""

LONGEST_QUOTE_CHARACTERS = 60
"""Enough to recognise the text in a row or a file; messages are logged and stored, and the text may be megabytes."""


def quoted(text: str) -> str:
    """Return `text` in quotes, with control characters and lone surrogates escaped, cut when it is long."""
    if len(text) <= LONGEST_QUOTE_CHARACTERS:
        return repr(text)
    return f"{text[:LONGEST_QUOTE_CHARACTERS]!r}... ({len(text)} characters)"
