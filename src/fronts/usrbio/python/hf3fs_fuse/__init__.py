"""The Python package of USRBIO programs, served by Penstock: see hf3fs_fuse.io."""
