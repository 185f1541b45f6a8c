// What the calls of penstock_model.h have in common.
#pragma once

#include "limits.h"
#include "penstock_model.h"

#include <cstring>
#include <string>

#include "penstock/engine.h"
#include "penstock/load.h"

namespace penstock::api {

inline penstock_model* to_handle(load::Model* model) {
  return reinterpret_cast<penstock_model*>(model);
}
inline load::Model* from_handle(penstock_model* model) {
  return reinterpret_cast<load::Model*>(model);
}
inline const load::Model* from_handle(const penstock_model* model) {
  return reinterpret_cast<const load::Model*>(model);
}

// Options of a program that may be older than this library: what it does not know is 0. False when
// it is newer.
template <class Options>
bool take_options(const Options& given, Options* taken) {
  if (given.size < sizeof given.size || given.size > sizeof given) return false;
  std::memcpy(taken, &given, given.size);
  return true;
}

inline engine::Time deadline_from(uint64_t deadline) {
  if (deadline == 0 || deadline >= INT64_MAX) return engine::kNever;
  return engine::Time(engine::Duration(static_cast<int64_t>(deadline)));
}

inline Failure wrong(std::string what) {
  return {Code::invalid_argument, std::move(what)};
}

inline load::Progress progress_from(int (*tell)(void*, uint64_t, uint64_t), void* context) {
  if (tell == nullptr) return nullptr;
  return [=](uint64_t done, uint64_t total) { return tell(context, done, total) == 0; };
}

}  // namespace penstock::api
