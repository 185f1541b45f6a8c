// Result<T, E>: a value or the reason why there is none, with the names of std::expected (C++23).
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "penstock/base/assert.h"
#include "penstock/base/status.h"

namespace penstock {

template <class E>
class Unexpected {
 public:
  explicit Unexpected(E error) : error_(std::move(error)) {}
  E& error() { return error_; }

 private:
  E error_;
};

template <class T, class E = Status>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = E;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT
  Result(Unexpected<E> error)
      : state_(std::in_place_index<1>, std::move(error.error())) {}  // NOLINT
  // An error itself converts too, so that `return Code::not_found;` reads well.
  template <class U>
  requires(std::is_convertible_v<U, E> && !std::is_convertible_v<U, T>) Result(U error)
      : state_(std::in_place_index<1>, E(std::move(error))) {}  // NOLINT

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    ASSERT(has_value());
    return std::get<0>(state_);
  }
  const T& value() const& {
    ASSERT(has_value());
    return std::get<0>(state_);
  }
  T&& value() && {
    ASSERT(has_value());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const E& error() const {
    ASSERT(!has_value());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, E> state_;
};

template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  using value_type = void;
  using error_type = E;

  Result() = default;
  Result(Unexpected<E> error) : error_(std::move(error.error())) {}  // NOLINT
  Result(E error) : error_(std::move(error)) {}                      // NOLINT

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  void value() const { ASSERT(has_value()); }
  const E& error() const {
    ASSERT(!has_value());
    return *error_;
  }

 private:
  std::optional<E> error_;
};

// For control paths (opening, mounting, configuring), where a person reads the reason: what was
// attempted, on what, why it failed and what to do next.
struct Failure {
  Status status;
  std::string message;
};

template <class T>
using Outcome = Result<T, Failure>;

namespace internal {
inline Status as_error(Status status) {
  return status;
}
template <class T, class E>
E as_error(Result<T, E>& result) {
  return result.error();
}
inline bool is_ok(Status status) {
  return status.ok();
}
template <class T, class E>
bool is_ok(const Result<T, E>& result) {
  return result.has_value();
}
}  // namespace internal

}  // namespace penstock

#define PENSTOCK_CONCAT_(a, b) a##b
#define PENSTOCK_CONCAT(a, b) PENSTOCK_CONCAT_(a, b)

// Returns the error of a Status or Result<...> expression from the enclosing function.
#define TRY(expression)                                           \
  do {                                                            \
    auto&& try_result_ = (expression);                            \
    if (!::penstock::internal::is_ok(try_result_)) [[unlikely]] { \
      return ::penstock::internal::as_error(try_result_);         \
    }                                                             \
  } while (false)

#define TRY_ASSIGN_(temporary, variable, expression)  \
  auto temporary = (expression);                      \
  if (!temporary) [[unlikely]] {                      \
    return ::penstock::internal::as_error(temporary); \
  }                                                   \
  variable = std::move(*temporary)

// TRY_ASSIGN(auto value, function()): the value of a Result, or returns its error.
#define TRY_ASSIGN(variable, expression) \
  TRY_ASSIGN_(PENSTOCK_CONCAT(try_assign_, __LINE__), variable, expression)
