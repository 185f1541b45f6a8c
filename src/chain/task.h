// Operations that free themselves, with what comes after them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::chain {

template <class T>
struct Task : T {
  std::function<void(Task&)> then;

  static Task& make(std::function<void(Task&)> then) {
    auto task = std::make_unique<Task>();
    task->then = std::move(then);
    task->completion = [](engine::Op& done) {
      const std::unique_ptr<Task> self(&static_cast<Task&>(done));
      self->then(*self);
    };
    return *task.release();
  }
};

// A call to a neighbour, with the memory of its message and of what it exposes.
struct PeerCall : engine::CallOp {
  std::vector<std::byte> message;
  std::array<std::byte, 64> answer{};
  std::vector<std::byte> exposed[2];

  // What goes out. The struct stays as it is until the call has ended.
  template <class T>
  void say(wire::ChainMethod what, const T& words) {
    method = static_cast<uint16_t>(what);
    const Bytes bytes = wire::as_wire(words);
    message.assign(bytes.begin(), bytes.end());
    CallOp::request = message;
    response = answer;
  }
  void expose(std::vector<std::byte> bytes, engine::Access access) {
    std::vector<std::byte>& kept = exposed[exposure_count];
    kept = std::move(bytes);
    exposures[exposure_count++] = {{kept.data(), kept.size()}, access};
  }
};

template <class T>
std::vector<std::byte> bytes_of(std::span<const T> values) {
  const Bytes bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

// The structs that stand one after the other in `bytes`.
template <class T>
std::vector<T> structs_of(Bytes bytes) {
  ASSERT(bytes.size() % sizeof(T) == 0);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace penstock::chain
