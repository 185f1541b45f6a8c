"""A PostgreSQL server for the names of a cluster, in a directory of its own."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

NOBODY = 65534
START_SECONDS = 60


def programs():
    """The newest release that Debian has put here, or None."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parent.parent.name))
    return found[-1].parent if found else None


class Postgres:
    def __init__(self):
        self.programs = programs()
        if self.programs is None:
            raise RuntimeError("PostgreSQL is not installed (apt-get install postgresql)")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-postgresql-"))
        # It refuses to be root.
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if self.user:
            os.chown(self.folder, NOBODY, NOBODY)
        self.process = None
        try:
            self.run("initdb", "-D", str(self.folder / "data"), "-U", "penstock", "-A", "trust", "-E", "UTF8", "--locale=C")
            self.start()
            self.run("createdb", "-h", str(self.folder), "-U", "penstock", "names")
        except (RuntimeError, OSError):
            self.remove()
            raise

    @property
    def url(self):
        return f"postgresql://penstock@/names?host={self.folder}"

    def run(self, program, *words):
        done = subprocess.run([str(self.programs / program), *words], capture_output=True, text=True, check=False, cwd="/",
                              **self.user)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr.strip()}")

    def start(self):
        """Returns when it answers."""
        with open(self.folder / "log", "ab") as log:
            words = ["-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses="]
            self.process = subprocess.Popen([str(self.programs / "postgres"), *words], stdout=log, stderr=log, cwd="/",
                                            **self.user)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"PostgreSQL has ended: {self.log()}")
            asked = subprocess.run([str(self.programs / "pg_isready"), "-q", "-h", str(self.folder)], check=False)
            if asked.returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL does not answer: {self.log()}")

    def log(self):
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        return " / ".join(lines[-5:])

    def crash(self):
        """As it ends when a process of it was killed: at once, with its log to be replayed."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def remove(self):
        if self.process is not None and self.process.poll() is None:
            self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)
