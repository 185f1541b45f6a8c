// A kernel that walks a graph stored in a file, and reads the adjacency lists that it comes to on
// demand.
//
//   graph_walk WHERE [VERTICES [EDGES_PER_VERTEX]]
//
// WHERE is what penstock_connect() takes: a store directory that a node serves, best one with a
// node cache (penstock up DIR --cache 4G). Makes /graph_walk there, searches it breadth first from
// vertex 0, on the GPU and on the host, and compares.
#include "penstock.h"
#include "penstock_device.h"
#include "penstock_device_ring.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <string>
#include <vector>

using namespace penstock::device;  // NOLINT: a program

namespace {

constexpr uint32_t kUnseen = UINT32_MAX;
constexpr uint32_t kPiece = 4096;  // bytes of a list that are read at a time
constexpr uint32_t kEdgeBytes = 4;
constexpr uint32_t kBlocks = 132, kThreads = 256;
constexpr uint64_t kFirstList = 13;  // in the file: no list lies where it would be convenient

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "graph_walk: %s\n", why.c_str());
  std::exit(1);
}

int must(int result, const char* what) {
  if (result < 0) stop(std::string(what) + ": " + penstock_last_error());
  return result;
}

void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) stop(std::string(what) + ": " + cudaGetErrorString(error));
}

template <class T>
T* shared_array(size_t count) {
  T* memory = nullptr;
  must(cudaMallocManaged(&memory, count * sizeof(T)), "managed memory");
  return memory;
}

// ---- the graph ----

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

struct Graph {
  std::vector<uint64_t> first;  // edge with which each vertex's list begins; one more for the end
  std::vector<uint32_t> edges;
};

// A few vertices have very long lists, as in many graphs.
Graph make_graph(uint32_t vertices, uint32_t edges_per_vertex) {
  Graph graph;
  graph.first.push_back(0);
  for (uint32_t v = 0; v < vertices; ++v) {
    uint64_t degree = 1 + mixed(v + 1) % (2 * edges_per_vertex);
    if (v % 10'000 == 0) degree *= 200;
    for (uint64_t i = 0; i < degree; ++i) {
      graph.edges.push_back(static_cast<uint32_t>(mixed(v * 1'000'003ULL + i) % vertices));
    }
    graph.first.push_back(graph.edges.size());
  }
  return graph;
}

std::vector<uint32_t> levels_by_host(const Graph& graph) {
  std::vector<uint32_t> level(graph.first.size() - 1, kUnseen), front{0}, next;
  level[0] = 0;
  for (uint32_t depth = 1; !front.empty(); ++depth, front.swap(next), next.clear()) {
    for (const uint32_t v : front) {
      for (uint64_t e = graph.first[v]; e < graph.first[v + 1]; ++e) {
        if (level[graph.edges[e]] != kUnseen) continue;
        level[graph.edges[e]] = depth;
        next.push_back(graph.edges[e]);
      }
    }
  }
  return level;
}

penstock_file write_graph(penstock_session* session, const Graph& graph) {
  constexpr size_t kStep = 16 << 20;
  penstock_region* region = nullptr;
  penstock_ring* ring = nullptr;
  must(penstock_region_create(session, kStep, &region), "region");
  must(penstock_ring_create(session, 1, 1, &ring), "ring");
  const penstock_file file =
      penstock_open(session, "/graph_walk", O_RDWR | O_CREAT | O_TRUNC, 0644);
  must(file, "open");
  const auto* const bytes = reinterpret_cast<const char*>(graph.edges.data());
  const size_t size = graph.edges.size() * kEdgeBytes;
  const auto run = [&](uint8_t operation, uint64_t offset, uint64_t length) {
    penstock_io io{};
    io.operation = operation;
    io.file = file;
    io.offset = offset;
    io.length = length;
    io.region = region;
    must(penstock_prepare(ring, &io), "prepare");
    must(penstock_submit(ring), "submit");
    penstock_completion completion{};
    must(penstock_wait(ring, &completion, 1, 1, PENSTOCK_FOREVER), "wait");
    return completion.result;
  };
  for (size_t done = 0; done < size; done += kStep) {
    const size_t piece = std::min(kStep, size - done);
    std::memcpy(penstock_region_base(region), bytes + done, piece);
    if (run(PENSTOCK_WRITE, kFirstList + done, piece) != static_cast<int64_t>(piece)) {
      stop("write of the graph failed");
    }
  }
  int64_t here = 0;
  for (uint64_t at = 0; at < kFirstList + size && here >= 0; at += kStep) {
    here = run(PENSTOCK_WARM, at, std::min<uint64_t>(kStep, kFirstList + size - at));
  }
  if (here < 0) std::printf("the node has no cache: every list comes from the disk\n");
  penstock_ring_destroy(ring);
  penstock_region_release(region);
  return file;
}

// ---- the walk ----

struct Walk {
  const uint64_t* first;
  uint32_t* level;
  uint32_t* front;
  uint32_t* next;
  uint32_t front_count;
  uint32_t depth;
  uint32_t* next_count;
  unsigned long long* reads;
  unsigned long long* failed;
  uint8_t file;
};

__device__ void visit(const Walk& walk, const char* list, uint32_t edges) {
  for (uint32_t i = 0; i < edges; ++i) {
    uint32_t to = 0;
    memcpy(&to, list + i * kEdgeBytes, kEdgeBytes);
    if (atomicCAS(&walk.level[to], kUnseen, walk.depth) != kUnseen) continue;
    walk.next[atomicAdd(walk.next_count, 1u)] = to;
  }
}

// A request that is still in flight after a wait may still write to its buffer.
__device__ int64_t wait_for_end(const Ring& ring, Ticket& ticket) {
  int64_t got = 0;
  while (ballot(kWholeWarp, ticket.pending) != 0) {
    const bool waits = ticket.pending;
    const int64_t result = wait_by_warp(ring, ticket, 30'000'000'000);
    if (waits) got = result;
  }
  return got;
}

// Each lane has a vertex of the front and reads its list, a piece at a time.
__global__ void step(Ring ring, Walk walk) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t threads = gridDim.x * blockDim.x;
  const uint64_t mine = uint64_t{thread} * 2 * kPiece;
  for (uint32_t at = thread - warp_lane(); at < walk.front_count; at += threads) {
    const bool has = at + warp_lane() < walk.front_count;
    const uint32_t vertex = has ? walk.front[at + warp_lane()] : 0;
    uint64_t edge = has ? walk.first[vertex] : 0;
    const uint64_t end = has ? walk.first[vertex + 1] : 0;
    while (ballot(kWholeWarp, edge < end) != 0) {
      const uint64_t edges = end - edge < kPiece / kEdgeBytes ? end - edge : kPiece / kEdgeBytes;
      Request request;
      request.file = walk.file;
      request.offset = kFirstList + edge * kEdgeBytes;
      request.length = static_cast<uint32_t>(edges * kEdgeBytes);
      // Equal modulo 16 to where it lies in the file: that copies fastest.
      request.destination = mine + request.offset % 16;
      Ticket ticket;
      // Where the ring is full the lane tries again after the others have had their lists.
      const int error = submit_by_warp(ring, edge < end, request, &ticket);
      const bool asked = ticket.pending;
      const int64_t got = wait_for_end(ring, ticket);
      if (asked && got == static_cast<int64_t>(request.length)) {
        visit(walk, ring.memory + request.destination, static_cast<uint32_t>(edges));
        atomicAdd(walk.reads, 1ull);
        edge += edges;
      } else if (asked || (error != 0 && error != -EAGAIN)) {
        atomicAdd(walk.failed, 1ull);
        edge = end;
      }
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) stop("usage: graph_walk WHERE [VERTICES [EDGES_PER_VERTEX]]");
  const auto number = [&](int i, uint32_t otherwise) {
    return count > i ? static_cast<uint32_t>(std::strtoul(arguments[i], nullptr, 10)) : otherwise;
  };
  const Graph graph = make_graph(number(2, 1'000'000), number(3, 32));
  const auto vertices = static_cast<uint32_t>(graph.first.size() - 1);
  penstock_session* session = nullptr;
  must(penstock_connect(arguments[1], &session), "connect");
  const penstock_file file = write_graph(session, graph);

  penstock_region* region = nullptr;
  penstock_device_ring* handle = nullptr;
  Ring ring{};
  must(
      penstock_region_create_device(session, 0, uint64_t{kBlocks} * kThreads * 2 * kPiece, &region),
      "GPU region");
  must(penstock_device_ring_create(session, region, 16384, &handle), "device ring");
  must(penstock_device_ring_view(handle, &ring, sizeof ring), "view");

  auto* const first = shared_array<uint64_t>(vertices + 1);
  std::copy(graph.first.begin(), graph.first.end(), first);
  auto* const counters = shared_array<unsigned long long>(2);
  Walk walk{first,
            shared_array<uint32_t>(vertices),
            shared_array<uint32_t>(vertices),
            shared_array<uint32_t>(vertices),
            1,
            1,
            shared_array<uint32_t>(1),
            &counters[0],
            &counters[1],
            static_cast<uint8_t>(must(penstock_device_ring_add_file(handle, file), "add file"))};
  // Twice: the second time the GPU has seen its memory, and the node cache is mapped.
  for (int round = 0; round < 2; ++round) {
    std::fill_n(walk.level, vertices, kUnseen);
    counters[0] = counters[1] = 0;
    walk.level[0] = walk.front[0] = 0;
    walk.front_count = walk.depth = 1;
    must(penstock_device_ring_wake(handle), "wake");
    const uint64_t begun = penstock_now();
    while (walk.front_count > 0) {
      *walk.next_count = 0;
      step<<<kBlocks, kThreads>>>(ring, walk);
      must(cudaDeviceSynchronize(), "walk");
      walk.front_count = *walk.next_count;
      std::swap(walk.front, walk.next);
      ++walk.depth;
    }
    const double seconds = static_cast<double>(penstock_now() - begun) * 1e-9;
    std::printf(
        "%u vertices, %zu edges, %u levels: %.3f s, %llu lists read, %.2f M/s, %llu failed\n",
        vertices, graph.edges.size(), walk.depth - 1, seconds, counters[0],
        static_cast<double>(counters[0]) / seconds * 1e-6, counters[1]);
  }
  const std::vector<uint32_t> expected = levels_by_host(graph);
  const bool same = std::equal(expected.begin(), expected.end(), walk.level);
  std::printf("%s\n", same ? "as the host's own search" : "DIFFERENT from the host's own search");
  must(penstock_device_ring_destroy(handle), "destroy");
  penstock_close(session);
  return same && counters[1] == 0 ? 0 : 1;
}
