// What one-sided calls cost between two PEs of different nodes, in any implementation of OpenSHMEM;
// and what the same takes over a bare socket: `shmem_far_bench serve PORT`, `shmem_far_bench ask
// ADDRESS PORT`. With "trips" as the last argument it stops after the round trips.
// bench/shmem_over_tcp.py builds and compares. Prints "NAME VALUE UNIT" lines.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kLargest = 64 << 20, kTrips = 20000, kSmall = 64 << 10, kMiddle = 1 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void tell(const char* name, double value, const char* unit) {
  printf("%s %.4f %s\n", name, value, unit);
  fflush(stdout);
}

static int rounds_of(size_t bytes) {
  return bytes >= kLargest ? 6 : (int)((256u << 20) / bytes);
}

// ---- bare sockets: both sides look without sleeping for what is small

static void receive_all(int socket, char* to, size_t bytes, int flags) {
  while (bytes > 0) {
    const ssize_t got = recv(socket, to, bytes, flags);
    if (got == 0) exit(1);
    if (got < 0) continue;
    to += got;
    bytes -= (size_t)got;
  }
}

static void send_all(int socket, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0) exit(1);
    from += sent;
    bytes -= (size_t)sent;
  }
}

static int bare(int serves, const char* address, const char* port, int only_trips) {
  const int one = 1;
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  name.sin_addr.s_addr = serves ? INADDR_ANY : inet_addr(address);
  int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  if (serves) {
    setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(socket_fd, (struct sockaddr*)&name, sizeof name) != 0 || listen(socket_fd, 1) != 0)
      return 1;
    socket_fd = accept(socket_fd, NULL, NULL);
  } else {
    while (connect(socket_fd, (struct sockaddr*)&name, sizeof name) != 0) {
      close(socket_fd);
      usleep(10000);
      socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    }
  }
  setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  char word[8] = {0};
  char* const memory = malloc(kLargest);
  memset(memory, 1, kLargest);
  const double begin = now();
  for (int i = 0; i < kTrips; ++i) {
    if (!serves) send_all(socket_fd, word, sizeof word);
    receive_all(socket_fd, word, sizeof word, MSG_DONTWAIT);
    if (serves) send_all(socket_fd, word, sizeof word);
  }
  if (!serves) tell("round_trip", (now() - begin) / kTrips * 1e6, "us");
  if (only_trips) return 0;
  const size_t sizes[] = {kSmall, kMiddle, kLargest};
  const char* const names[] = {"put.64k", "put.1m", "put.64m"};
  for (int i = 0; i < 3; ++i) {
    const double from = now();
    for (int k = 0; k < rounds_of(sizes[i]); ++k) {
      if (serves) {
        receive_all(socket_fd, memory, sizes[i], 0);
      } else {
        send_all(socket_fd, memory, sizes[i]);
      }
    }
    if (serves) {
      send_all(socket_fd, word, 1);
    } else {
      receive_all(socket_fd, word, 1, 0);
      tell(names[i], (double)sizes[i] * rounds_of(sizes[i]) / (now() - from) * 1e-9, "GB/s");
    }
  }
  return 0;
}

// ---- one-sided

static long flag;
static int me;

#define TIME(name, count, unit, call)                          \
  do {                                                         \
    shmem_barrier_all();                                       \
    if (me == 0) {                                             \
      const double begin = now();                              \
      for (long i = 0; i < (count); ++i) {                     \
        call;                                                  \
      }                                                        \
      shmem_quiet();                                           \
      tell(name, (now() - begin) / (double)(count)*1e6, unit); \
    }                                                          \
    shmem_barrier_all();                                       \
  } while (0)

static void large(char* there, char* here, size_t bytes, const char* size) {
  char name[32];
  const int rounds = rounds_of(bytes);
  shmem_barrier_all();
  if (me == 0) {
    double begin = now();
    for (int i = 0; i < rounds; ++i) shmem_putmem(there, here, bytes, 1);
    shmem_quiet();
    snprintf(name, sizeof name, "put.%s", size);
    tell(name, (double)bytes * rounds / (now() - begin) * 1e-9, "GB/s");
    begin = now();
    for (int i = 0; i < rounds; ++i) shmem_getmem(here, there, bytes, 1);
    snprintf(name, sizeof name, "get.%s", size);
    tell(name, (double)bytes * rounds / (now() - begin) * 1e-9, "GB/s");
    begin = now();
    for (int i = 0; i < rounds; ++i) shmem_getmem_nbi(here, there, bytes, 1);
    shmem_quiet();
    snprintf(name, sizeof name, "get_nbi.%s", size);
    tell(name, (double)bytes * rounds / (now() - begin) * 1e-9, "GB/s");
  }
  shmem_barrier_all();
}

static int one_sided(int only_trips) {
  shmem_init();
  me = shmem_my_pe();
  char* const there = shmem_malloc(kLargest);
  char* const here = shmem_malloc(kLargest);
  memset(here, me + 1, kLargest);
  memset(there, 0, kLargest);
  shmem_barrier_all();
  for (int turn = 0; turn < 2; ++turn) {
    flag = 0;
    shmem_barrier_all();
    const double begin = now();
    for (long i = 1; i <= kTrips; ++i) {
      if (me == 0) {
        shmem_long_p(&flag, i, 1);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, i);
      } else {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, i);
        shmem_long_p(&flag, i, 0);
      }
    }
    // The first warms up.
    if (me == 0 && turn == 1) tell("round_trip", (now() - begin) / kTrips * 1e6, "us");
  }
  if (only_trips) {
    shmem_finalize();
    return 0;
  }
  long* const word = (long*)(void*)there;
  volatile long seen = 0;
  TIME("p.8", 300000, "us", shmem_long_p(word + i % 1024, i, 1));
  TIME("put_nbi.8", 300000, "us", shmem_putmem_nbi(there + i % 1024 * 8, here, 8, 1));
  TIME("add", 300000, "us", shmem_long_atomic_add(word, 1, 1));
  TIME("get.8", 20000, "us", seen = shmem_long_g(word, 1));
  TIME("get_nbi.8", 100000, "us", shmem_getmem_nbi(here + i % 1024 * 8, there, 8, 1));
  TIME("fetch_add", 20000, "us", seen = shmem_long_atomic_fetch_add(word, 1, 1));
  (void)seen;
  TIME("put_quiet.8", 20000, "us", (shmem_long_p(word, i, 1), shmem_quiet()));
  shmem_barrier_all();
  const double begin = now();
  for (int i = 0; i < kTrips; ++i) shmem_barrier_all();
  if (me == 0) tell("barrier", (now() - begin) / kTrips * 1e6, "us");
  large(there, here, kSmall, "64k");
  large(there, here, kMiddle, "1m");
  large(there, here, kLargest, "64m");
  shmem_finalize();
  return 0;
}

int main(int argc, char** argv) {
  const int only_trips = strcmp(argv[argc - 1], "trips") == 0;
  if (only_trips) --argc;
  if (argc == 3 && strcmp(argv[1], "serve") == 0) return bare(1, NULL, argv[2], only_trips);
  if (argc == 4 && strcmp(argv[1], "ask") == 0) return bare(0, argv[2], argv[3], only_trips);
  return one_sided(only_trips);
}
