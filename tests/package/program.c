/* What a user of libpenstock writes: opens the store of argv[1] by its node, writes a file, reads
 * it back. */
#include <fcntl.h>
#include <penstock.h>
#include <penstock_device_ring.h>
#include <penstock_model.h>
#include <stdio.h>
#include <string.h>

static int ended_badly(const char* what) {
  fprintf(stderr, "%s: %s\n", what, penstock_last_error());
  return 1;
}

/* One operation through the ring; its result. */
static int64_t run(penstock_ring* ring, const penstock_io* io) {
  penstock_completion done;
  if (penstock_prepare(ring, io) < 0) return -1;
  penstock_submit(ring);
  if (penstock_wait(ring, &done, 1, 1, PENSTOCK_FOREVER) != 1) return -1;
  return done.result;
}

int main(int argc, char** argv) {
  static const char text[] = "from a program";
  penstock_session* session = NULL;
  penstock_region* region = NULL;
  penstock_ring* ring = NULL;
  penstock_io io;
  if (argc != 2 || penstock_connect(argv[1], &session) < 0) return ended_badly("connect");
  if (penstock_region_create(session, 4096, &region) < 0) return ended_badly("region");
  if (penstock_ring_create(session, 1, 1, &ring) < 0) return ended_badly("ring");
  memset(&io, 0, sizeof io);
  io.file = penstock_open(session, "/program", O_RDWR | O_CREAT, 0644);
  if (io.file < 0) return ended_badly("open");
  io.region = region;
  io.length = sizeof text;
  memcpy(penstock_region_base(region), text, sizeof text);
  io.operation = PENSTOCK_WRITE;
  if (run(ring, &io) != (int64_t)sizeof text) return ended_badly("write");
  memset(penstock_region_base(region), 0, sizeof text);
  io.operation = PENSTOCK_READ;
  if (run(ring, &io) != (int64_t)sizeof text) return ended_badly("read");
  if (strcmp(penstock_region_base(region), text) != 0) return ended_badly("compare");
  penstock_close(session);
  printf("penstock %s\n", penstock_version());
  return 0;
}
