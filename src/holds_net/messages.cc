#include "messages.h"

#include "limits.h"

#include <algorithm>
#include <concepts>
#include <utility>

namespace penstock::holds_net {
namespace {

// A T that is written, or one that is read.
template <class M, class T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

// The fields of each word, in their order, for both directions.
void fields(auto& io, Of<Want> auto& m) {
  io(m.inode, m.request, m.hold, m.waits);
}
void fields(auto& io, Of<Back> auto& m) {
  io(m.inode, m.recall, m.left, m.in_use);
}
void fields(auto& io, Of<GiveUp> auto& m) {
  io(m.inode, m.grant, m.in_use);
}
void fields(auto& io, Of<Unused> auto& m) {
  io(m.inode);
}
void fields(auto& io, Of<Cancel> auto& m) {
  io(m.inode, m.request);
}
void fields(auto& io, Of<Claim> auto& m) {
  io(m.inode, m.hold);
}
void fields(auto&, Of<ClaimsEnd> auto&) {}
void fields(auto& io, Of<Given> auto& m) {
  io(m.inode, m.request, m.hold, m.stamp);
}
void fields(auto& io, Of<Recall> auto& m) {
  io(m.inode, m.recall, m.grant, m.leave, m.keeps, m.names);
}
void fields(auto& io, Of<Granted> auto& m) {
  io(m.inode, m.stamp);
}
void fields(auto&, Of<ClaimsTaken> auto&) {}
void fields(auto& io, Of<Refused> auto& m) {
  io(m.inode, m.request, m.only_reads);
}

class Out {
 public:
  void operator()(const auto&... values) { (one(values), ...); }
  void number(uint8_t value) { writer_.byte(value); }
  std::string take() { return writer_.take(); }

 private:
  void one(bool value) { writer_.byte(value ? 1 : 0); }
  void one(Hold value) { writer_.byte(static_cast<uint8_t>(value)); }
  template <class Tag>
  void one(Id<Tag, uint64_t> value) {
    writer_.varint(value.value);
  }
  void one(const std::vector<std::string>& names) {
    writer_.varint(names.size());
    for (const std::string& name : names) writer_.string(name);
  }

  meta::Writer writer_;
};

class In {
 public:
  explicit In(meta::Reader& reader) : reader_(reader) {}
  void operator()(auto&... values) { (one(values), ...); }

 private:
  uint8_t choice(uint8_t count) {
    const uint8_t value = reader_.byte();
    reader_.require(value < count);
    return reader_.going() ? value : 0;
  }
  void one(bool& value) { value = choice(2) == 1; }
  void one(Hold& value) { value = static_cast<Hold>(choice(3)); }
  template <class Tag>
  void one(Id<Tag, uint64_t>& value) {
    value.value = reader_.varint();
    // Nothing that is spoken of has the number 0.
    reader_.require(value.value != 0);
  }
  void one(std::vector<std::string>& names) {
    const uint64_t count = reader_.varint();
    reader_.require(count <= limits::kNamesMax);
    // Grows with what is there, whatever the count says.
    for (uint64_t i = 0; i < count && reader_.going(); ++i) {
      names.push_back(reader_.string(limits::kNamesBytesMax));
    }
  }

  meta::Reader& reader_;
};

template <class All>
void append(const All& all, std::string& bytes) {
  Out out;
  out.number(static_cast<uint8_t>(all.index() + 1));
  std::visit([&](const auto& one) { fields(out, one); }, all);
  bytes += out.take();
}

// The number of a word is its place among all, and 1.
template <class All, size_t kPlace = 0>
bool read_one(uint8_t number, meta::Reader& reader, AgentId agent, std::vector<All>& into) {
  if constexpr (kPlace < std::variant_size_v<All>) {
    if (number != kPlace + 1) return read_one<All, kPlace + 1>(number, reader, agent, into);
    std::variant_alternative_t<kPlace, All> one{};
    In in(reader);
    fields(in, one);
    if constexpr (requires { one.agent; }) one.agent = agent;
    into.push_back(std::move(one));
    return reader.going();
  }
  return false;
}

template <class All>
std::optional<std::vector<All>> read_all(std::string_view bytes, AgentId agent) {
  meta::Reader reader(bytes);
  std::vector<All> all;
  while (!reader.finished()) {
    if (!read_one(reader.byte(), reader, agent, all)) return std::nullopt;
  }
  return all;
}

}  // namespace

void encode(const Word& word, std::string& bytes) {
  append(word, bytes);
}
void encode(const Told& told, std::string& bytes) {
  append(told, bytes);
}
std::optional<std::vector<Word>> decode_words(std::string_view bytes, AgentId agent) {
  std::optional<std::vector<Word>> words = read_all<Word>(bytes, agent);
  if (!words) return words;
  const auto claims = std::count_if(words->begin(), words->end(), [](const Word& word) {
    return std::holds_alternative<Claim>(word);
  });
  if (static_cast<size_t>(claims) > limits::kClaimsAtOnce) return std::nullopt;
  return words;
}
std::optional<std::vector<Told>> decode_told(std::string_view bytes, AgentId agent) {
  return read_all<Told>(bytes, agent);
}

}  // namespace penstock::holds_net
