// A whole node under random file operations, killed and cut off from power at random moments, and
// held against a model of what it may show.
#pragma once

#include "model.h"
#include "whole_node.h"

#include <memory>
#include <string>
#include <vector>

namespace penstock::client {

inline constexpr uint64_t kFileMax = 5 * 65536;

class Story {
 public:
  explicit Story(uint64_t seed) : node_(seed), random_(node_.world.random()) {}

  // Returns the trace of the whole run.
  uint64_t run();

 private:
  struct Open {
    FileRef file;
    std::shared_ptr<ModelFile> model;
  };

  // One operation; what the node says must be right unless it died in it.
  void step();
  void create();
  void make_many();
  void write(const Open& open);
  void write_many(const Open& open);
  void truncate(const std::shared_ptr<ModelFile>& model);
  void punch(const Open& open);
  void read(const Open& open);
  void sync(const Open& open);
  void sync_all();
  void unlink();
  void rename();
  void give_up(size_t index);
  void collect();

  // Begins lives until one can be used, and holds what it shows against the model.
  void restart();
  void verify_names();
  void verify_content();
  void verify_space();
  void rebase();
  void finish();

  std::string name() { return "f" + std::to_string(random_.below(6)); }
  std::string some_bytes();
  std::string read_all(const FileRef& file);
  void changed(const std::shared_ptr<ModelFile>& model, std::string content, bool happened);
  void expect(Status status, const char* what) {
    if (!status.ok() && !node_.dead()) {
      ADD_FAILURE() << what << ": " << status.name() << " " << where();
    }
  }
  std::string where() const {
    return "(seed " + std::to_string(node_.world.seed()) + ", step " + std::to_string(steps_) + ")";
  }
  void names_changed(Names names, bool happened);

  WholeNode node_;
  engine::Random& random_;
  uint64_t steps_ = 0;
  std::vector<Open> opens_;
  std::vector<std::shared_ptr<ModelFile>> all_;
  std::vector<Names> names_{Names()};  // like ModelFile::history
  bool names_uncertain_ = false;       // the newest state may or may not have happened
};

}  // namespace penstock::client
