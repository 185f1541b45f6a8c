"""Man pages: what the command line, docs/mounting.md and the headers say, in the frames of packaging/man."""

import re

from roff import bold, escape, from_markdown, italic, verbatim


def fill(frame, **pieces):
    """Replaces @NAME@ in a frame; a name that nothing is known of is a mistake."""
    text = re.sub(r"@([A-Z_]+)@", lambda found: pieces[found[1].lower()], frame)
    # Names are not broken, and so words are not stretched.
    return text.replace(".SH NAME\n", ".nh\n.ad l\n.SH NAME\n", 1)


# ---- penstock(1)


# Documents of the repository, as an installation has them.
_ELSEWHERE = {
    "docs/mounting.md": "mount.penstock(8)",
    "docs/metrics.md": "/usr/share/doc/penstock/metrics.md",
}


def _said(text):
    for ours, there in _ELSEWHERE.items():
        text = text.replace(ours, there)
    return escape(text)


def _usage(command):
    words = [bold(f"penstock {command.name}")]
    for place in command.places:
        name = italic(place.place) + ("..." if place.repeated else "")
        words.append(name if place.required else f"[{name}]")
    words.append(f"[{italic('OPTION')}]...")
    return " ".join(words)


def _option(option):
    names = ", ".join(bold(name) for name in option.names)
    lines = [".TP", names + (f" {italic(option.value)}" if option.value else "")]
    what = _said(option.description)
    if option.bounds:
        what += f" ({escape(option.bounds)})"
    return [*lines, what or "\\&"]


def _command(command):
    also = "".join(f", {bold('penstock ' + each)}" for each in command.aliases)
    lines = [".SS " + _usage(command) + also, _said(command.description) + "."]
    for place in command.places:
        if place.description and place.description not in ("The store directory",):
            lines += [".TP", italic(place.place), _said(place.description)]
    for option in command.options:
        if "--help" not in option.names:
            lines += _option(option)
    if command.footer:
        lines += [".PP", _said(command.footer)]
    return lines


def penstock(frame, program, version):
    lines = []
    group = ""
    for command in program.all_commands():
        if command.group not in (group, "Subcommands"):
            group = command.group
            lines += [f".SH {escape(group).upper()}"]
        lines += _command(command)
    return fill(frame, version=version, commands="\n".join(lines))


# ---- mount.penstock(8)


def _rows(markdown):
    """The rows of the first table with two columns, without its head."""
    rows = re.findall(r"^\| *(.+?) *\| *(.+?) *\|$", markdown, re.MULTILINE)
    return [row for row in rows[1:] if not re.fullmatch(r"-+", row[0].strip("|"))]


def mount_penstock(frame, mounting, version):
    options = mounting[mounting.index("## Options") :]
    lines = []
    for names, what in _rows(options):
        lines += [".TP", from_markdown(names), from_markdown(what) + "."]
    return fill(frame, version=version, options="\n".join(lines))


# ---- headers

_PROTOTYPE = re.compile(r"^PENSTOCK_API\b[^;]*?\b(penstock_\w+)\(", re.MULTILINE)


def functions_of(header):
    return _PROTOTYPE.findall(header)


def _comment(text):
    """The paragraphs of a comment; indented lines are examples."""
    lines = [re.sub(r"^ ?\* ?", "", line.rstrip()) for line in text.split("\n")]
    out = []
    example = []
    for line in [*lines, ""]:
        if line.startswith("  "):
            example.append(line)
            continue
        if example and line:
            out += [*verbatim(example), ".PP"]
            example = []
        elif example:
            out += verbatim(example)
            example = []
        out.append(escape(line.strip()) if line.strip() else ".PP")
    while out and out[-1] == ".PP":
        out.pop()
    return out


def _body(header):
    """The header as a page: its comments as text, its declarations as they stand."""
    begin = header.index('extern "C" {')
    begin = header.index("#endif", begin) + len("#endif")
    text = header[begin : header.index("#ifdef __cplusplus", begin)]
    # A comment that begins a line is about what follows it; others are part of a declaration.
    lines = []
    about = []
    for part in re.split(r"^(/\*.*?\*/)$", text, flags=re.MULTILINE | re.DOTALL):
        if part.startswith("/* ----"):
            title, _, rest = part[2:-2].partition("\n")
            lines += [f".SS {escape(_sentence(title.strip(' -')))}", *_comment(rest.strip(" *\n"))]
        elif part.startswith("/*"):
            about = _comment(re.sub(r"^   ", "", part[2:-2].strip(), flags=re.MULTILINE))
        else:
            for declaration in _declarations(part):
                lines += [".PP", *verbatim(declaration)[1:]]
                if about:
                    lines += [".RS 4", *about, ".RE"]
                    about = []
    return lines


def _sentence(text):
    return text[:1].upper() + text[1:]


def _declarations(code):
    """Lists of lines, each up to the semicolon outside of braces."""
    found = [[]]
    depth = 0
    for line in code.strip("\n").split("\n"):
        if not line.strip() or line.startswith("#define PENSTOCK_API"):
            continue
        bare = re.sub(r"/\*.*?\*/", "", line)
        depth += bare.count("{") - bare.count("}")
        found[-1].append(re.sub(r"^(PENSTOCK_API| {12}) ", "", line))
        if depth == 0 and (bare.rstrip().endswith(";") or line.startswith("#define")):
            found.append([])
    return [each for each in found if each]


def header_page(frame, header, name, version):
    comment = re.search(r"/\*\n(.*?)\n \*/", header, re.DOTALL)[1]
    comment = re.sub(r"^ \* ?", "", comment, flags=re.MULTILINE)
    what, rest = re.match(r"\S+: (.*?)\.\s(.*)", comment, re.DOTALL).groups()
    return fill(
        frame,
        version=version,
        title=name.upper(),
        name=name,
        what=escape(" ".join(what.split())),
        description="\n".join(_comment(rest)).lstrip("\n"),
        body="\n".join(_body(header)),
    )
