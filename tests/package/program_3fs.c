/* What a user of 3FS's library writes: memory of the file system mounted at argv[1]. */
#include <hf3fs_usrbio.h>
#include <stdio.h>

int main(int argc, char** argv) {
  struct hf3fs_iov iov;
  int result = argc == 2 ? hf3fs_iovcreate(&iov, argv[1], 1 << 20, 0, -1) : 1;
  if (result != 0) {
    fprintf(stderr, "iovcreate: %d\n", result);
    return 1;
  }
  hf3fs_iovdestroy(&iov);
  return 0;
}
