"""PyTorch's torch.cuda.gds, with whatever libcufile.so.0 is found.

    python3 torch_gds.py [DIRECTORY]
"""

import os
import sys
import tempfile

import torch

failures = 0


def check(good, what):
    global failures
    print("PASS" if good else "FAIL", what)
    failures += 0 if good else 1


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else "/var/tmp"
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        path = os.path.join(scratch, "tensors")
        first = torch.randn(1024, 257, device="cuda")
        second = torch.randint(0, 255, (3_000_001,), dtype=torch.uint8, device="cuda")
        # The file is opened anew, with O_DIRECT, as torch does it.
        file = torch.cuda.gds.GdsFile(path, os.O_CREAT | os.O_RDWR)
        file.save_storage(first.untyped_storage(), offset=0)
        at = first.untyped_storage().nbytes()
        file.save_storage(second.untyped_storage(), offset=at)

        with open(path, "rb") as posix:
            content = posix.read()
        check(content[:at] == first.cpu().numpy().tobytes(), "the file has what was saved")
        check(content[at:] == second.cpu().numpy().tobytes(), "at an odd length, too")

        for registered in (False, True):
            again = torch.empty_like(first)
            rest = torch.empty_like(second)
            if registered:
                torch.cuda.gds.gds_register_buffer(again.untyped_storage())
            file.load_storage(again.untyped_storage(), offset=0)
            file.load_storage(rest.untyped_storage(), offset=at)
            check(torch.equal(first, again), f"load_storage brings it back (registered: {registered})")
            check(torch.equal(second, rest), "and what stands behind it")
            if registered:
                torch.cuda.gds.gds_deregister_buffer(again.untyped_storage())

        # Some versions of torch take a short read for an error, others for a read.
        short = torch.zeros(1024, dtype=torch.uint8, device="cuda")
        try:
            file.load_storage(short.untyped_storage(), offset=len(content) - 10)
            check(bytes(short.cpu().numpy()) == content[-10:] + bytes(1014), "a read beyond the end is short")
        except RuntimeError as error:
            check("partial" in str(error), f"a read beyond the end is an error of torch's: {error}")
        file.deregister_handle()
    print("PASS" if failures == 0 else "FAIL", f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
