#!/usr/bin/env python3
"""Makes the man pages and completions that are installed.

    generate.py --program build/release/bin/penstock --version 0.1.0 --output build/release/share
"""

import argparse
import pathlib

import completion
import manual
from command_line import Program

HEADERS = ("penstock", "penstock_model", "penstock_device_ring")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    given = parser.parse_args()

    here = pathlib.Path(__file__).resolve().parent
    program = Program.of(given.program)
    mounting = (here.parent / "docs/mounting.md").read_text()

    def frame(name):
        return (here / "man" / name).read_text()

    def write(name, text):
        path = given.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("man/man1/penstock.1", manual.penstock(frame("penstock.1"), program, given.version))
    write(
        "man/man8/mount.penstock.8",
        manual.mount_penstock(frame("mount.penstock.8"), mounting, given.version),
    )
    write("man/man8/mount.fuse.penstock.8", ".so man8/mount.penstock.8\n")
    write("man/man8/penstock@.service.8", manual.fill(frame("penstock@.service.8"), version=given.version))
    for name in HEADERS:
        header = (here.parent / "src/api/include" / f"{name}.h").read_text()
        write(f"man/man3/{name}.3", manual.header_page(frame("header.3"), header, name, given.version))
        for function in manual.functions_of(header):
            write(f"man/man3/{function}.3", f".so man3/{name}.3\n")
    write("bash-completion/completions/penstock", completion.bash(program, mounting))
    write("zsh/_penstock", completion.zsh(program, mounting))


if __name__ == "__main__":
    main()
