"""Text for man pages: the few requests of man(7) that ours need."""

import re


def escape(text):
    """Text that means itself."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


def bold(text):
    return f"\\fB{escape(text)}\\fR"


def italic(text):
    return f"\\fI{escape(text)}\\fR"


def from_markdown(text):
    """One paragraph: `code` is bold, a link is its text."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"(`[^`]*`|\*[^*\s][^*]*\*)", text)
    out = []
    for part in parts:
        if part.startswith("`"):
            out.append(bold(part[1:-1]))
        elif len(part) > 2 and part.startswith("*"):
            out.append(italic(part[1:-1]))
        else:
            out.append(escape(part))
    return "".join(out)


def verbatim(lines):
    return ["", ".nf", *(escape(line) if line else "" for line in lines), ".fi"]
