"""What the checks share: the list of libraries, the files to look at, and C++ text without comments."""

import pathlib
import re
from dataclasses import dataclass, field

CODE = {".h", ".cc", ".c", ".cu", ".cuh"}


@dataclass
class Layer:
    """One line of src/layers.txt."""

    name: str
    rank: int
    outside: list = field(default_factory=list)


def read_layers(root):
    """The libraries by name, in dependency order."""
    layers = {}
    for line in (root / "src" / "layers.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            layers[words[0]] = Layer(words[0], len(layers), words[1:])
    return layers


def code_files(root, *directories):
    """Every file of C++ or C under the given directories, sorted."""
    found = []
    for directory in directories:
        for path in (root / directory).rglob("*"):
            if path.suffix in CODE and path.is_file():
                found.append(path)
    return sorted(found)


_TOKEN = re.compile(
    r"""
      //(?:[^\n\\]|\\.|\\\n)*          # a comment to the end of the line
    | /\*.*?\*/                        # a comment between marks
    | R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"
    | "(?:[^"\\\n]|\\.)*"
    | (?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'   # not the digit separator of 1'000
    """,
    re.VERBOSE | re.DOTALL,
)


def without_comments(text, keep_strings=False):
    """The text with comments, and unless asked strings, replaced by blanks; lines stay where they are."""

    def blank(match):
        token = match.group(0)
        if keep_strings and not token.startswith(("//", "/*")):
            return token
        return re.sub(r"[^\n]", " ", token)

    return _TOKEN.sub(blank, text)


def line_of(text, offset):
    """The 1-based line of an offset."""
    return text.count("\n", 0, offset) + 1
