#!/usr/bin/env python3
"""Names on PostgreSQL servers that Patroni and etcd keep going: `./dev failover` calls it. For root, as it mounts.

Two servers replicate synchronously on loopback; programs make files in a mount. In each round the machine of the primary is
lost: its Patroni and its server are killed (every other round: only the server), the other one takes over, and the one that was
lost comes back behind it. No program may see an error, files are made again within 10 s after the new primary is there,
and at the end every file that was acknowledged is there and the names are consistent. Exits with 1 if not.

Needs Debian's postgresql, patroni, python3-etcd and etcd-server; those that are missing are named, and it ends with 77.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

NOBODY = 65534  # The server refuses to run as root.
PATIENCE = 120
GO_ON = 10  # Seconds after the new primary is there.


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def eventually(what, condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise SystemExit(f"failover: not in {seconds} s: {what}")


def start(words, log):
    """In a session of its own, so that what it starts is ended with it."""
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd="/", **user)


class Server:
    """A server with its Patroni."""

    def __init__(self, name, scratch, etcd_port, programs):
        self.name, self.data = name, scratch / name
        self.port, self.rest = free_port(), free_port()
        self.log = open(scratch / f"{name}.log", "ab")
        self.config = scratch / f"{name}.yml"
        trust = ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
        # JSON is YAML.
        self.config.write_text(json.dumps({
            "scope": "names", "name": name,
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.rest}"},
            "etcd3": {"host": f"127.0.0.1:{etcd_port}"},
            "bootstrap": {
                "dcs": {"ttl": 20, "loop_wait": 1, "retry_timeout": 3, "primary_start_timeout": 0, "master_start_timeout": 0,
                        "synchronous_mode": True, "postgresql": {"use_pg_rewind": True}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, "data-checksums"],
                "pg_hba": trust},
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}", "connect_address": f"127.0.0.1:{self.port}", "data_dir": str(self.data),
                "bin_dir": str(programs), "pgpass": str(scratch / f"{name}.pgpass"), "pg_hba": trust,
                "remove_data_directory_on_diverged_timelines": True, "remove_data_directory_on_rewind_failure": True,
                "authentication": {"superuser": {"username": "penstock"}, "replication": {"username": "replicator"}},
                "parameters": {"unix_socket_directories": str(scratch), "fsync": "off", "shared_buffers": "32MB",
                               "max_connections": 60}}}))
        self.process = None

    def start(self):
        self.process = start([shutil.which("patroni"), str(self.config)], self.log)

    def is_primary(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/primary", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def is_synchronous(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/synchronous", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def postmaster(self):
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n")[0])
        except (OSError, ValueError):
            return None

    def kill_server(self):
        pid = self.postmaster()
        if pid is None or not pathlib.Path(f"/proc/{pid}/cmdline").exists():
            return
        if str(self.data) not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode():
            return  # Another's by now.
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in [pid, *map(int, children)]:
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        self.kill_server()


class Makers:
    """Programs that make files, and remember which were acknowledged."""

    def __init__(self, place, count=3):
        self.place, self.over, self.errors = place, False, []
        self.made = [[] for _ in range(count)]
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, maker):
        directory = self.place / f"of{maker}"
        directory.mkdir()
        number = 0
        while not self.over:
            path = directory / str(number)
            number += 1
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                self.made[maker].append(path)
            except OSError as error:
                self.errors.append(f"{path}: {error}")

    def count(self):
        return sum(map(len, self.made))

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join()

    def missing(self):
        return [path for made in self.made for path in made if not path.exists()]


def fail_over(number, servers, makers):
    primary = next(server for server in servers if server.is_primary())
    other = next(server for server in servers if server is not primary)
    whole = number % 2 == 0
    begun = time.monotonic()
    if whole:
        primary.kill()
    else:
        primary.kill_server()
    eventually("a primary after the loss of one", lambda: other.is_primary() or (not whole and primary.is_primary()))
    before, there = makers.count(), time.monotonic()
    eventually("files are made again", lambda: makers.count() > before + 10, GO_ON)
    print(f"round {number}: {'machine' if whole else 'server'} of {primary.name} lost; another primary after "
          f"{there - begun:.1f} s, files {time.monotonic() - there:.1f} s later", flush=True)
    if whole:
        primary.start()
    eventually("a synchronous standby again", lambda: any(server.is_synchronous() for server in servers))


def run(options, scratch, programs):
    etcd_port, peer_port = free_port(), free_port()
    url = f"http://127.0.0.1:{etcd_port}"
    etcd = start([shutil.which("etcd"), "--data-dir", str(scratch / "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
                  "--listen-peer-urls", f"http://127.0.0.1:{peer_port}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer_port}",
                  "--initial-cluster", f"default=http://127.0.0.1:{peer_port}"], open(scratch / "etcd.log", "ab"))
    servers = [Server(name, scratch, etcd_port, programs) for name in ("a", "b")]
    store, mount = scratch / "store", scratch / "mount"
    mount.mkdir()
    program = pathlib.Path(options.build) / "bin/penstock"
    makers = None
    try:
        servers[0].start()
        eventually("a first primary", servers[0].is_primary)
        servers[1].start()
        eventually("a synchronous standby", lambda: any(server.is_synchronous() for server in servers))
        subprocess.run([programs / "createdb", "-h", "127.0.0.1", "-p", str(servers[0].port), "-U", "penstock", "names"], check=True)
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
        subprocess.run([program, "up", store, "--kv", f"postgresql://penstock@{hosts}/names?target_session_attrs=read-write", "--mount",
                        mount, "-b"], check=True, stdout=subprocess.DEVNULL)
        makers = Makers(mount)
        eventually("files are made", lambda: makers.count() > 100)
        for number in range(options.rounds):
            fail_over(number, servers, makers)
        makers.stop()
        missing = makers.missing()
        checked = subprocess.run([program, "metadata", "check", store], check=False, capture_output=True, text=True)
        print(f"{makers.count()} files made, {len(makers.errors)} errors, {len(missing)} missing; {checked.stdout.strip()}{checked.stderr.strip()}")
        for what in makers.errors[:5] + missing[:5]:
            print(f"  {what}")
        return 0 if not makers.errors and not missing and checked.returncode == 0 else 1
    finally:
        if makers is not None:
            makers.over = True
        for server in servers:
            if server.process is not None:
                server.kill()
        etcd.kill()
        etcd.wait()
        subprocess.run([program, "down", store], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--keep", action="store_true", help="leave the scratch directory, with all logs")
    options = parser.parse_args()
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    lacking = [name for name in ("patroni", "etcd") if shutil.which(name) is None] + ([] if programs else ["postgresql"])
    if lacking:
        print(f"failover: skipped: these are missing: {', '.join(lacking)}")
        return 77
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="penstock-failover-"))
    os.chmod(scratch, 0o755)
    if os.geteuid() == 0:
        os.chown(scratch, NOBODY, NOBODY)
    try:
        return run(options, scratch, programs[-1])
    finally:
        if options.keep:
            print(f"failover: kept: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
