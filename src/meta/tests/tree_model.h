// The namespace as a plain tree of objects: what Meta is checked against. As simple as can be, with
// no thought of cost; permissions are left out (everything is done as root).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/meta.h"

namespace penstock::meta {

struct ModelNode {
  FileType type = FileType::regular;
  uint32_t mode = 0;
  uint64_t length = 0;
  uint32_t links = 0;  // of everything but directories
  std::string target;
  ModelNode* parent = nullptr;  // of directories
  std::map<std::string, ModelNode*> entries;
  std::map<std::string, std::string> xattrs;
  InodeId inode;  // what the implementation called it

  bool is_directory() const { return type == FileType::directory; }
  uint32_t link_count() const {
    if (!is_directory()) return links;
    uint32_t count = 2;
    for (const auto& [name, node] : entries) count += node->is_directory() ? 1 : 0;
    return count;
  }
};

class TreeModel {
 public:
  TreeModel() {
    root_ = add(FileType::directory, 0755);
    root_->parent = root_;
    root_->inode = kRootInode;
  }

  ModelNode* root() { return root_; }
  size_t alive() const { return nodes_.size() - dead_; }

  ModelNode* find(ModelNode* parent, const std::string& name) const {
    const auto found = parent->entries.find(name);
    return found == parent->entries.end() ? nullptr : found->second;
  }

  Code make(ModelNode* parent, const std::string& name, FileType type, uint32_t mode,
            ModelNode** made) {
    if (find(parent, name) != nullptr) return Code::already_exists;
    const bool inherits = type == FileType::directory && (parent->mode & 02000) != 0;
    *made = add(type, mode | (inherits ? 02000 : 0));
    (*made)->links = 1;
    if (type == FileType::directory) (*made)->parent = parent;
    parent->entries[name] = *made;
    return Code::ok;
  }

  Code link(ModelNode* node, ModelNode* parent, const std::string& name) {
    if (find(parent, name) != nullptr) return Code::already_exists;
    if (node->is_directory()) return Code::not_permitted;
    parent->entries[name] = node;
    ++node->links;
    return Code::ok;
  }

  Code unlink(ModelNode* parent, const std::string& name) {
    ModelNode* node = find(parent, name);
    if (node == nullptr) return Code::not_found;
    if (node->is_directory()) return Code::is_directory;
    parent->entries.erase(name);
    drop(node);
    return Code::ok;
  }

  Code remove_directory(ModelNode* parent, const std::string& name) {
    ModelNode* node = find(parent, name);
    if (node == nullptr) return Code::not_found;
    if (!node->is_directory()) return Code::not_directory;
    if (!node->entries.empty()) return Code::not_empty;
    parent->entries.erase(name);
    drop(node);
    return Code::ok;
  }

  Code rename(ModelNode* from, const std::string& name, ModelNode* to, const std::string& new_name,
              RenameFlags flags) {
    ModelNode* source = find(from, name);
    if (source == nullptr) return Code::not_found;
    ModelNode* target = find(to, new_name);
    if (target != nullptr && flags.no_replace) return Code::already_exists;
    if (target == nullptr && flags.exchange) return Code::not_found;
    if (inside(to, source)) return Code::invalid_argument;
    if (target != nullptr && inside(from, target)) {
      return flags.exchange ? Code::invalid_argument : Code::not_empty;
    }
    if (source == target) return Code::ok;
    if (flags.exchange) {
      from->entries[name] = target;
      to->entries[new_name] = source;
      if (source->is_directory()) source->parent = to;
      if (target->is_directory()) target->parent = from;
      return Code::ok;
    }
    if (target != nullptr) {
      if (source->is_directory() && !target->is_directory()) return Code::not_directory;
      if (!source->is_directory() && target->is_directory()) return Code::is_directory;
      if (!target->entries.empty()) return Code::not_empty;
      to->entries.erase(new_name);
      drop(target);
    }
    from->entries.erase(name);
    to->entries[new_name] = source;
    if (source->is_directory()) source->parent = to;
    return Code::ok;
  }

  // All directories that are in the tree, root first.
  std::vector<ModelNode*> directories() const {
    std::vector<ModelNode*> found{root_};
    for (size_t i = 0; i < found.size(); ++i) {
      for (const auto& [name, node] : found[i]->entries) {
        if (node->is_directory()) found.push_back(node);
      }
    }
    return found;
  }

 private:
  ModelNode* add(FileType type, uint32_t mode) {
    nodes_.push_back(std::make_unique<ModelNode>());
    nodes_.back()->type = type;
    nodes_.back()->mode = mode;
    return nodes_.back().get();
  }
  void drop(ModelNode* node) {
    if (node->is_directory() || --node->links == 0) {
      node->links = 0;
      ++dead_;
    }
  }
  // Whether `node` is `above` or below it.
  static bool inside(const ModelNode* node, const ModelNode* above) {
    if (!above->is_directory()) return false;
    while (node != above && node->parent != node) node = node->parent;
    return node == above;
  }

  std::vector<std::unique_ptr<ModelNode>> nodes_;
  ModelNode* root_ = nullptr;
  size_t dead_ = 0;
};

}  // namespace penstock::meta
