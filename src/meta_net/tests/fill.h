// Random values for every field of a message (io.h): small numbers and large ones, and short lists.
#pragma once

#include "../answers.h"

namespace penstock::meta_net {

class Fill {
 public:
  explicit Fill(engine::Random& random) : random_(random) {}

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  template <class T>
  void list(std::vector<T>& list, size_t max) {
    list.clear();
    const uint64_t count = std::min<uint64_t>(random_.below(5), max);
    for (uint64_t i = 0; i < count; ++i) {
      if constexpr (kIsResult<T>) {
        T value = Code::corrupt;
        one(value);
        list.push_back(std::move(value));
      } else {
        one(list.emplace_back());
      }
    }
  }
  template <class Choice>
  void plain(Choice& value) {
    value = static_cast<Choice>(random_.below(256));
  }
  template <class T>
  void one(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = random_.chance(1, 2);
    } else if constexpr (std::is_unsigned_v<T>) {
      value = static_cast<T>(random_.next() >> random_.below(64));
    } else if constexpr (kIsId<T>) {
      one(value.value);
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(random_.below(kChoices<T>));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value.assign(random_.below(40), static_cast<char>(random_.below(256)));
    } else if constexpr (std::is_same_v<T, meta::FileTime>) {
      value = meta::FileTime::from_raw(random_.below(meta::FileTime::kRawMax + 1));
    } else if constexpr (std::is_same_v<T, Status>) {
      value = random_.chance(1, 2) ? Status()
                                   : Status(static_cast<Code>(1 + random_.below(85)),
                                            static_cast<uint32_t>(random_.next()));
    } else if constexpr (kIsOptional<T>) {
      value.reset();
      if (random_.chance(1, 2)) one(value.emplace());
    } else if constexpr (kIsResult<T>) {
      fill_result(value);
    } else if constexpr (requires { T::fields(*this, value); }) {
      T::fields(*this, value);
    } else {
      fields(*this, value);
    }
  }

 private:
  template <class T>
  void fill_result(Result<T>& result) {
    Status status;
    one(status);
    if (!status.ok()) {
      result = status;
      return;
    }
    T value{};
    one(value);
    result = std::move(value);
  }

  engine::Random& random_;
};

// Runs `use.template operator()<Call>()` for the call of every kind.
template <class Use, class... Calls>
void for_each_call(const Use& use, const std::variant<Calls...>*) {
  (use.template operator()<Calls>(), ...);
}
template <class Use>
void for_each_call(const Use& use) {
  for_each_call(use, static_cast<const Request*>(nullptr));
}

template <class Call>
Request random_request(engine::Random& random) {
  Call call;
  Fill fill(random);
  fill.one(call);
  return call;
}
template <class Call>
std::string random_answer(engine::Random& random) {
  Result<typename Call::Answer> answer = Code::corrupt;
  Fill fill(random);
  fill.one(answer);
  return encode_answer<Call>(answer);
}

}  // namespace penstock::meta_net
