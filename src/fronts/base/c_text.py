"""Declarations of C as text: taken apart, put together, and broken into lines."""

import re

WIDTH = 120


def declare(kind, name):
    return f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}".strip()


def split_argument(text):
    kind, name = re.fullmatch(r"(.*?)(\w+)", text).groups()
    return (kind.strip(), name)


def split_arguments(text):
    """[("const float *", "source"), ("size_t", "nelems")] of "const float *source, size_t nelems"."""
    if text in ("", "void"):
        return []
    return [split_argument(part.strip()) for part in text.split(",")]


def wrapped(prototype, end):
    """A declaration in lines that a screen holds."""
    lines = [prototype + end]
    while len(lines[-1]) > WIDTH:
        cut = lines[-1].rindex(", ", 0, WIDTH) + 1
        lines[-1:] = [lines[-1][:cut], "    " + lines[-1][cut:].lstrip()]
    return "\n".join(lines)


def comment(title, text=""):
    if not text:
        return f"/* {title}. */"
    lines = text.strip().splitlines()
    return "\n".join([f"/* {title}.", " *"] + [f" * {line}" for line in lines]) + " */"
