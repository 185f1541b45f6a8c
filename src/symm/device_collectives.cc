#include "penstock/symm/device_collectives.h"

#include "image.h"
#include "penstock_device/symm/far_work.h"

#include <string>
#include <vector>

namespace penstock::symm {

using device::FarWork;
using device::GridKind;
using device::GridPlan;
using device::GridWork;

namespace {

constexpr std::array<const char*, kCombines> kCombineNames = {"sum", "prod", "min", "max",
                                                              "and", "or",   "xor"};
constexpr std::array<const char*, kElements> kElementNames = {
    "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"};

static_assert(static_cast<int>(Combine::bit_xor) == static_cast<int>(device::FarCombine::bit_xor) &&
                  static_cast<int>(Element::u8) == static_cast<int>(device::FarElement::u8) &&
                  static_cast<int>(Element::f64) == static_cast<int>(device::FarElement::f64),
              "one list, in two places");

// What no kernel is there for.
constexpr uint32_t kNoKernel = ~uint32_t{0};

// The kernels of one file, by ways of combining and elements; an order of launch() numbers.
struct KernelFile {
  CollectiveImage image;
  std::vector<Combine> combines;
  std::vector<Element> elements;
};

const std::vector<Element>& all_elements() {
  using E = Element;
  static const std::vector<Element> kAll = {E::s8,  E::s16, E::s32, E::s64,  E::u8,  E::u16,
                                            E::u32, E::u64, E::f16, E::bf16, E::f32, E::f64};
  return kAll;
}

// Integers of both signs have the same bits in sums and products, and all have in bits.
std::vector<KernelFile> reduction_files() {
  using C = Combine;
  using E = Element;
  const std::vector<Element> unsigned_only = {E::u8,  E::u16,  E::u32, E::u64,
                                              E::f16, E::bf16, E::f32, E::f64};
  return {{CollectiveImage::sum, {C::sum}, unsigned_only},
          {CollectiveImage::prod, {C::prod}, unsigned_only},
          {CollectiveImage::min, {C::min}, all_elements()},
          {CollectiveImage::max, {C::max}, all_elements()},
          {CollectiveImage::bits, {C::bit_and, C::bit_or, C::bit_xor}, {E::u8, E::u32}}};
}

bool is_bitwise(Combine combine) {
  return combine >= Combine::bit_and;
}
bool is_floating(Element element) {
  return element >= Element::f16;
}
Element without_sign(Element element) {
  constexpr auto kSigns = static_cast<uint8_t>(Element::u8);
  const auto number = static_cast<uint8_t>(element);
  return number < kSigns ? static_cast<Element>(number + kSigns) : element;
}

bool is_aligned(const void* address, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

}  // namespace

struct DeviceCollectives::Operation {
  GridKind kind;
  void* dest;
  const void* source;
  uint64_t bytes;  // as GridWork has it
  uint32_t root = 0;
  Reduction reduction = {Combine::sum, Element::u8};  // of one, as kernels have it

  bool is_reduction() const { return kind == GridKind::reduce || kind == GridKind::reducescatter; }
  bool collects() const { return kind == GridKind::fcollect || kind == GridKind::alltoall; }
  bool gives_parts() const { return kind == GridKind::alltoall || kind == GridKind::reducescatter; }
};

Outcome<std::unique_ptr<DeviceCollectives>> DeviceCollectives::make(DeviceHeap& heap,
                                                                    uint32_t kernels_before) {
  std::unique_ptr<DeviceCollectives> made(new DeviceCollectives(heap));
  uint32_t next = kernels_before;
  static constexpr std::array<const char*, 2> kBytesKernels = {"penstock_symm_bytes",
                                                               "penstock_symm_marked_bytes"};
  TRY(heap.device().load_kernels(collective_image(CollectiveImage::bytes), kBytesKernels));
  made->bytes_kernel_ = next++;
  made->marked_bytes_kernel_ = next++;
  for (auto& kernels : made->reduce_kernels_) kernels.fill(kNoKernel);
  for (const KernelFile& file : reduction_files()) {
    std::vector<std::string> names;
    for (const Combine combine : file.combines) {
      for (const Element element : file.elements) {
        names.push_back(fmt::format("penstock_symm_{}_{}",
                                    kCombineNames[static_cast<size_t>(combine)],
                                    kElementNames[static_cast<size_t>(element)]));
        made->reduce_kernels_[static_cast<size_t>(combine)][static_cast<size_t>(element)] = next++;
      }
    }
    std::vector<const char*> texts;
    for (const std::string& name : names) texts.push_back(name.c_str());
    TRY(heap.device().load_kernels(collective_image(file.image), texts));
  }
  if (!heap.has_far()) return made;
  static constexpr std::array<const char*, 2> kFarKernels = {"penstock_symm_far_bytes",
                                                             "penstock_symm_far_reduce"};
  TRY(heap.device().load_kernels(collective_image(CollectiveImage::far), kFarKernels));
  made->far_bytes_kernel_ = next++;
  made->far_reduce_kernel_ = next++;
  return made;
}

// Whether this PE has all that the operation takes and gives.
Status DeviceCollectives::check(const Team& team, const Operation& operation) const {
  if (team.size() > device::kSymmNearMax || team.id() >= device::kSymmTeamsMax)
    return Code::not_supported;
  if (operation.root >= team.size()) return Code::invalid_argument;
  if (operation.bytes == 0) return {};
  uint64_t all = 0;
  if (__builtin_mul_overflow(operation.bytes, uint64_t{team.size()}, &all))
    return Code::invalid_argument;
  const uint32_t me = team.set().pe(team.index());
  const bool has_source = operation.kind != GridKind::broadcast || operation.root == team.index();
  if (heap_.at(operation.dest, operation.collects() ? all : operation.bytes, me) == nullptr ||
      (has_source && heap_.at(operation.source, operation.gives_parts() ? all : operation.bytes,
                              me) == nullptr)) {
    return Code::invalid_argument;
  }
  return {};
}

Status DeviceCollectives::launch(const Team& team, const Operation& operation, Stream stream) {
  TRY(check(team, operation));
  if (operation.bytes == 0) return {};
  // Alone everything is a copy.
  if (team.size() == 1) {
    return operation.dest == operation.source
               ? Status()
               : heap_.device().copy(operation.dest, operation.source, operation.bytes, stream);
  }
  const PeSet& set = team.set();
  const GridWork work = {.dest = operation.dest,
                         .source = operation.source,
                         .bytes = operation.bytes,
                         .pairs = 0,
                         .start = static_cast<int32_t>(set.start),
                         .stride = static_cast<int32_t>(set.stride),
                         .size = static_cast<int32_t>(set.size),
                         .index = static_cast<int32_t>(team.index()),
                         .team = static_cast<int32_t>(team.id()),
                         .root = static_cast<int32_t>(operation.root),
                         .kind = operation.kind,
                         .blocks = 1};
  return heap_.has_far(team) ? launch_far(team, operation, work, stream)
                             : launch_near(operation, work, stream);
}

Status DeviceCollectives::launch_near(const Operation& operation, GridWork work, Stream stream) {
  const GridPlan plan = device::grid_plan(work.kind, work.size, work.bytes);
  work.pairs = plan.pairs;
  work.blocks = plan.blocks;
  uint32_t kernel = plan.pairs != 0 ? marked_bytes_kernel_ : bytes_kernel_;
  if (operation.is_reduction()) {
    const auto [combine, element] = operation.reduction;
    kernel = reduce_kernels_[static_cast<size_t>(combine)][static_cast<size_t>(element)];
    ASSERT(kernel != kNoKernel);
  }
  device::SymmState state = heap_.state();
  std::array<void*, 2> arguments = {&state, &work};
  return heap_.device().launch({.kernel = kernel,
                                .blocks = plan.grid(),
                                .threads = plan.threads,
                                .arguments = arguments,
                                .stream = stream});
}

// By one block, as what goes to far members is slower than that.
Status DeviceCollectives::launch_far(const Team& team, const Operation& operation,
                                     const GridWork& work, Stream stream) {
  const auto near = heap_.near_members(team);
  FarWork far = {.work = work,
                 .plan = device::far_plan(near.data(), work.size, work.index),
                 .combine = static_cast<uint32_t>(operation.reduction.combine),
                 .element = static_cast<uint32_t>(operation.reduction.element),
                 .is_small = device::is_far_small(work.size, work.bytes) ? 1U : 0U,
                 .landing_bytes = device::kFarLandingBytes};
  device::SymmState state = heap_.state();
  std::array<void*, 2> arguments = {&state, &far};
  return heap_.device().launch(
      {.kernel = operation.is_reduction() ? far_reduce_kernel_ : far_bytes_kernel_,
       .blocks = 1,
       .threads = device::far_threads(work.bytes),
       .arguments = arguments,
       .stream = stream});
}

Status DeviceCollectives::broadcast(const Team& team, void* dest, const void* source,
                                    uint64_t bytes, uint32_t root, Stream stream) {
  return launch(team, {GridKind::broadcast, dest, source, bytes, root}, stream);
}
Status DeviceCollectives::fcollect(const Team& team, void* dest, const void* source, uint64_t bytes,
                                   Stream stream) {
  return launch(team, {GridKind::fcollect, dest, source, bytes}, stream);
}
Status DeviceCollectives::alltoall(const Team& team, void* dest, const void* source, uint64_t bytes,
                                   Stream stream) {
  return launch(team, {GridKind::alltoall, dest, source, bytes}, stream);
}

Status DeviceCollectives::start_reduction(const Team& team, Reduction reduction,
                                          Operation operation, uint64_t count, Stream stream) {
  const uint64_t each = bytes_of(reduction.element);
  if (__builtin_mul_overflow(count, each, &operation.bytes)) return Code::invalid_argument;
  if (!is_aligned(operation.dest, each) || !is_aligned(operation.source, each))
    return Code::invalid_argument;
  Element element = reduction.element;
  if (is_bitwise(reduction.combine)) {
    if (is_floating(element)) return Code::invalid_argument;
    constexpr uint64_t kWord = bytes_of(Element::u32);
    const bool in_words = is_aligned(operation.dest, kWord) &&
                          is_aligned(operation.source, kWord) && operation.bytes % kWord == 0;
    element = in_words ? Element::u32 : Element::u8;
  } else if (reduction.combine == Combine::sum || reduction.combine == Combine::prod) {
    element = without_sign(element);
  }
  operation.reduction = {reduction.combine, element};
  return launch(team, operation, stream);
}

Status DeviceCollectives::reduce(const Team& team, Reduction reduction, void* dest,
                                 const void* source, uint64_t count, Stream stream) {
  return start_reduction(team, reduction, {GridKind::reduce, dest, source, 0}, count, stream);
}
Status DeviceCollectives::reducescatter(const Team& team, Reduction reduction, void* dest,
                                        const void* source, uint64_t count, Stream stream) {
  return start_reduction(team, reduction, {GridKind::reducescatter, dest, source, 0}, count,
                         stream);
}

}  // namespace penstock::symm
