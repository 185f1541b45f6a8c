// The command line of `penstock`: what its words are, and which command they call.
#pragma once

#include "commands.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace penstock::apps {

class CommandLine {
 public:
  CommandLine();

  // Parses the words and does what they say. The exit code.
  int run(int argc, char** argv);

 private:
  // command_line.cc
  bool has_command(const std::string& name) const;
  std::vector<std::string> names_of_commands() const;
  int refuse(const std::string& name) const;
  int parse_and_run(int argc, char** argv);
  CLI::App* command(const char* name, const char* group, const char* description,
                    std::function<int()> action);
  void add_other_commands();
  void add_check_net(CLI::App* check);
  void add_check_symm(CLI::App* check);

  // command_line_node.cc: nodes and clusters
  void add_node_commands();
  void add_up_command(const char* group);
  void add_limit_command(const char* group);
  void add_cluster_commands();
  void add_what_goes(CLI::App* sub);
  void add_token_commands(const char* group);
  void add_restrict_command(const char* group);
  static void add_restrictions(CLI::App* sub, RestrictionWords* to);
  void add_identity_commands(const char* group);
  // Of `up`, and of `join`, which starts a node, too.
  static void add_start_options(CLI::App* sub, UpOptions* to);

  // command_line_data.cc: files and models
  void add_data_commands();
  void add_tree_options(CLI::App* sub);
  void add_metadata_commands(const char* group);
  void add_layout_commands(const char* group);
  void add_quota_commands(const char* group);
  void add_trash_commands(const char* group);
  void add_model_commands();

  // command_line_job.cc
  void add_job_commands();
  // What follows the program of `run` is its own, whatever it looks like.
  void mark_program(std::vector<std::string>* words) const;

  CLI::App app_{"Penstock: the data plane between storage and GPUs", "penstock"};
  UpOptions up_;
  NodeOptions node_;
  TreeOptions tree_;
  WarmOptions warm_;
  LoadOptions load_;
  SaveOptions save_;
  CheckOptions check_;
  NetCheckOptions net_check_;
  SymmCheckOptions symm_check_;
  MetadataOptions metadata_;
  int (*metadata_action_)(const MetadataOptions&) = nullptr;
  BenchOptions bench_;
  LimitOptions limit_;
  LayoutOptions layout_;
  SetOptions set_;
  TopOptions top_;
  TraceOptions trace_;
  JoinOptions join_;
  ClusterOptions cluster_;
  TrashOptions trash_;
  int (*trash_action_)(const TrashOptions&) = nullptr;
  QuotaOptions quota_;
  int (*quota_action_)(const QuotaOptions&) = nullptr;
  StandbyOptions standby_;
  TokenOptions token_;
  RestrictOptions restrict_;
  int (*token_action_)(const TokenOptions&) = nullptr;
  IdentityOptions identity_;
  int (*identity_action_)(const IdentityOptions&) = nullptr;
  RunOptions run_;
  std::function<int()> action_;
};

}  // namespace penstock::apps
