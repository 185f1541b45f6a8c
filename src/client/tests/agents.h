// Several file systems over the same names and targets, each as on a node of its own, in one
// thread.
#pragma once

#include "shared_holds.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "penstock/chunks.h"
#include "penstock/client.h"
#include "penstock/net.h"
#include "penstock/sim.h"
#include "penstock/store_fake.h"

namespace penstock::client {

class Agents {
 public:
  Agents(uint64_t seed, size_t count);
  ~Agents();

  FileSystem& files(size_t agent) { return *agents_[agent].files; }
  SharedHolds& holds() { return *holds_; }

  FileRef open(size_t agent, const std::string& path,
               OpenFlags flags = {.write = true, .create = true});
  Status write(size_t agent, const FileRef& file, uint64_t offset, std::string bytes);
  // Through memory, where the file system takes it so.
  Status write_soon(size_t agent, const FileRef& file, uint64_t offset, std::string bytes);
  std::string read(size_t agent, const FileRef& file, uint64_t offset, uint64_t length);
  Attributes stat(size_t agent, const std::string& path);
  size_t chunk_count() const;

  const Credentials root;
  sim::SimWorld world;

 private:
  class Record final : public inodes::RecordsFile {
   public:
    Status read(std::span<std::byte> block) override;
    Status write(std::span<const std::byte> block) override;

   private:
    std::vector<std::byte> block_;
  };
  struct Agent {
    std::unique_ptr<sim::SimLoop> loop;
    std::unique_ptr<net::LocalNet> net;
    std::unique_ptr<FileSystem> files;
  };
  struct Storage {
    std::unique_ptr<sim::SimLoop> loop;
    std::unique_ptr<net::LocalNet> net;
    std::unique_ptr<store::FakeTarget> target;
    std::unique_ptr<engine::Service> service;
  };

  sim::SimKvImage kv_image_;
  std::unique_ptr<sim::SimKv> kv_;
  std::unique_ptr<meta::Meta> meta_;
  net::LocalNetwork network_;
  std::vector<Storage> storages_;
  std::unique_ptr<SharedHolds> holds_;
  std::vector<Agent> agents_;
};

}  // namespace penstock::client
