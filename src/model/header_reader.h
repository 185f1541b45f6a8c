// Reads the JSON of a header piece by piece: nothing is kept that is not part of a tensor.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "penstock/json.h"
#include "penstock/model.h"

namespace penstock::model {

// The parser tells it what comes; false: no more of it, and wrong() says why. What nests deeper, or
// is longer, than a header can be is refused where it begins: as a tree, a hundred megabytes of
// text would be gigabytes.
class HeaderReader final : public Json::json_sax_t {
 public:
  // Offsets of tensors are those of the text: they count from the beginning of the data.
  explicit HeaderReader(Safetensors* file) : file_(*file) {}

  const std::string& wrong() const { return wrong_; }

  bool null() override { return unexpected(); }
  bool boolean(bool) override { return unexpected(); }
  bool number_integer(number_integer_t) override { return unexpected(); }
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t, const string_t&) override { return unexpected(); }
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return unexpected(); }
  bool start_object(size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t, const std::string&, const Json::exception&) override;

 private:
  // What the next piece belongs to.
  enum class State { document, header, metadata, tensor, numbers };

  bool refuse(std::string why);
  bool refuse_tensor(const char* why);
  bool unexpected();
  bool begin_field(const std::string& name);
  void begin_tensor();
  bool finish_tensor();

  Safetensors& file_;
  std::string wrong_;
  State state_ = State::document;
  std::set<std::string> names_;
  std::string key_;  // of the header, or of the metadata

  // The tensor that is being read.
  Tensor tensor_;
  std::vector<uint64_t> offsets_;
  std::set<std::string> fields_;              // that have come
  std::string* text_ = nullptr;               // where the field's string goes, if it is one
  std::vector<uint64_t>* numbers_ = nullptr;  // where its numbers go
  size_t numbers_max_ = 0;
};

}  // namespace penstock::model
