// Operations that free themselves, with what comes after them.
#pragma once

#include "next_release.h"
#include "payload.h"

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
  std::vector<std::byte> exposed[3];
  Payload payload;

  // What goes out. The struct stays as it is until the call has ended.
  template <class T>
  void say(wire::ChainMethod what, const T& words) {
    method = static_cast<uint16_t>(what);
    const Bytes bytes = wire::as_wire(words);
    message.assign(bytes.begin(), bytes.end());
    CallOp::request = message;
    response = answer;
  }
  // Completes the header of what was said.
  void address(TargetId target, uint64_t deadline_us, const NextRelease& next, engine::Time now) {
    wire::ChainHeader header;
    ASSERT(message.size() >= sizeof header);
    std::memcpy(&header, message.data(), sizeof header);
    header.target = target.value;
    header.deadline_us = deadline_us;
    next.add_to(header, now);
    std::memcpy(message.data(), &header, sizeof header);
  }
  // Once all of it is said.
  void say_in(uint16_t version) {
    message.resize(wire::say_in(version, message));
    CallOp::request = message;
  }
  void expose(std::vector<std::byte> bytes, engine::Access access) {
    ASSERT(exposure_count < std::size(exposed));
    std::vector<std::byte>& kept = exposed[exposure_count];
    kept = std::move(bytes);
    exposures[exposure_count++] = {{kept.data(), kept.size()}, access};
  }
  // At most once for each call.
  void expose(Payload bytes) {
    ASSERT(payload.empty() && !bytes.empty());
    payload = std::move(bytes);
    exposures[exposure_count++] = {{payload.data(), payload.size()}, engine::Access::fetch};
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
