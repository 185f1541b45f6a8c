// Bounds of symmetric memory, with the reason for each.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::symm::limits {

// PEs of a group: four thousand windows of a terabyte fit into the addresses of a process.
inline constexpr uint32_t kPesMax = 4096;

// Heaps and windows are multiples of it: a huge page, and what GPUs map at once.
inline constexpr uint64_t kGranule = uint64_t{2} << 20;

// The largest alignment of memory on a heap. Each PE's stands at a multiple of it,
// so that this much of a process's addresses may stay empty for each.
inline constexpr uint64_t kAlignmentMax = uint64_t{1} << 30;
static_assert(kAlignmentMax % kGranule == 0);

// Addresses that the windows of all PEs may take: half of what a process has.
inline constexpr uint64_t kWindowsBytesMax = uint64_t{1} << 46;

// Addresses behind the heap of a GPU, for what it grows by and for memory that the program itself
// has made: more than one GPU has.
inline constexpr uint64_t kAdoptedBytesMax = uint64_t{256} << 30;
// What a heap on GPUs grows by at least, where there is as much: each piece is mapped by all PEs.
inline constexpr uint64_t kGrowth = uint64_t{512} << 20;

// Of a heap where nobody says more: the machine's memory divided by the PEs of the node, at least
// this.
inline constexpr uint64_t kHeapBytesMin = uint64_t{64} << 20;

// Pages of the program's variables about which the kernel is asked at a time: of 16 MiB, by 32 KiB
// of its answer.
inline constexpr size_t kPagesAskedAtOnce = 4096;

// How long a PE waits for the others when a group is made.
inline constexpr std::chrono::seconds kJoinTime{60};

// How long a wait goes on once a PE of the group has left by itself. One that leaves a sync before
// the others is no mistake: what they wait for is on its way, at the speed at which they run.
inline constexpr std::chrono::seconds kAfterLeave{10};

// ---- PEs of other nodes

// What of a put is copied, so that it can be gathered with others: below it a copy costs less than
// a piece of its own for the kernel. And what of a get's answer is.
inline constexpr size_t kFarCopied = 2048;
// Gathered puts go out when so many bytes have come together: a system call is then no more than a
// tenth of what they cost.
inline constexpr size_t kFarGathered = size_t{16} << 10;
// Who puts waits while so much has not been sent.
inline constexpr size_t kFarUnsent = size_t{256} << 10;
// What is received where no better place is known; of each PE that was reached. Frames that are
// taken as a whole fit.
inline constexpr size_t kFarStaging = size_t{32} << 10;
// Payload up to it is taken as a whole.
inline constexpr size_t kFarWhole = 4096;
// Elements of a row, in one frame.
inline constexpr size_t kFarRowBytes = 8192;
// Questions to a PE that wait for their answer.
inline constexpr size_t kFarAsked = 256;
// What a peer that keeps to that may leave unread, as pieces, and as bytes that were copied.
inline constexpr size_t kFarPieces = 4 * kFarAsked;
inline constexpr size_t kFarUnread = 4 * kFarAsked * kFarRowBytes;
// Those who connected and have not said who they are, and for how long.
inline constexpr uint32_t kFarStrangers = 64;
inline constexpr std::chrono::seconds kFarHelloTime{5};
// For one address of a PE; and for all of them, again and again.
inline constexpr std::chrono::seconds kFarConnectOnce{2};
inline constexpr std::chrono::seconds kFarConnect{60};
// How long a connection that has ended waits for the job to tell whose end it was.
inline constexpr std::chrono::seconds kFarNews{2};
// How long the end of a group waits for others to take what was put.
inline constexpr std::chrono::seconds kFarClose{5};
// While calls read the sockets, the thread looks this often whether they still do: what was
// gathered waits so long, and who computes answers after twice that.
inline constexpr std::chrono::microseconds kFarNap{500};
static_assert(kFarStaging >= 32 + kFarRowBytes && kFarRowBytes >= kFarWhole);
static_assert(kFarCopied <= kFarWhole && kFarGathered <= kFarUnsent);

// ---- PEs of other nodes that have RDMA, too

// What is registered, and shown to a peer, at once: pinning it takes some milliseconds, and all of
// it is memory that is taken then.
inline constexpr uint64_t kFarPart = uint64_t{16} << 20;
// A message with its header: many small frames, and two packets of the largest size.
inline constexpr uint32_t kFarMessageBytes = 8192;
inline constexpr uint32_t kFarOfferBytes = 48;
// Messages that may be under way to one side, and those that only return credits.
inline constexpr uint32_t kFarCredits = 16;
inline constexpr uint32_t kFarCreditMessages = 2;
inline constexpr uint32_t kFarReceives = kFarCredits + kFarCreditMessages;
// One RDMA write or read, from symmetric memory; and by way of a buffer, of which there are some.
inline constexpr uint64_t kFarPiece = uint64_t{1} << 20;
inline constexpr uint64_t kFarBuffer = uint64_t{128} << 10;
inline constexpr uint32_t kFarBuffers = 16;
// Pieces of one queue pair that are under way, and their bytes: messages wait behind them.
inline constexpr uint32_t kFarFlying = 32;
inline constexpr uint64_t kFarFlyingBytes = uint64_t{4} << 20;
// Windows of one queue pair that are being bound.
inline constexpr uint32_t kFarBinds = 32;
// Windows that are asked for at a time, and so words that nobody has taken yet.
inline constexpr uint32_t kFarHeard = 64;
// How long a queue pair may take to pass its trial; and work of it to complete.
inline constexpr std::chrono::seconds kFarTrial{10};
inline constexpr std::chrono::seconds kFarCardSilence{10};
static_assert(kFarPart % kGranule == 0 && kFarPiece <= kFarPart && kFarBuffer <= kFarPiece);
static_assert(kFarCredits >= 4 && kFarMessageBytes > kFarStaging / kFarCredits);

// How long the proxy of a GPU polls when nothing has come; then it sleeps for a part of the time
// since, so that who asks waits no longer than that part of what it did before.
inline constexpr std::chrono::microseconds kFarProxySpin{200};
inline constexpr int kFarProxySleepPart = 16;
inline constexpr std::chrono::microseconds kFarProxySleepMin{10};
inline constexpr std::chrono::microseconds kFarProxySleepMax{1000};

// How long changes of words wait for a kernel of the program's context before one of the proxy's
// own makes them, with which the GPU changes over to that context and back.
inline constexpr std::chrono::milliseconds kFarChangesApart{1};

// Requests to one far PE that its proxy keeps until the lane has room: others go on meanwhile.
inline constexpr uint32_t kFarPending = 1024;

// Device memory through which a put or get of pageable memory goes, piece by piece: hundreds of
// frames, so that the copies before and behind each piece count for little; and the least of it.
inline constexpr uint64_t kFarStageBytes = uint64_t{16} << 20;
inline constexpr uint64_t kFarStageLeast = uint64_t{64} << 10;

// How long a proxy waits for a kernel that is to make changes and copies: where none comes the GPU
// runs nothing any more, or somebody has written over what they count by.
inline constexpr std::chrono::minutes kFarKernels{5};
// What counts of that between two looks, as a process may be stopped.
inline constexpr std::chrono::milliseconds kFarKernelsLook{100};

// Requests of kernels that wait for an answer at once: as many as the largest ring has entries.
inline constexpr uint32_t kFarAwaited = 32768;

}  // namespace penstock::symm::limits
