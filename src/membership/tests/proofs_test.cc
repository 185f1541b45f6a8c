// Certificates and tokens, over the whole of a controller's service.
#include "tests/service_rig.h"

#include <fmt/format.h>

namespace penstock::membership {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;

// Requests are the names of keys, and certificates say for whom they are.
class FakeSigner final : public Signer {
 public:
  Outcome<controller::KeyPrint> key_of(const std::string& request) const override {
    if (request.empty()) return Failure{Code::bad_message, "no request"};
    return controller::KeyPrint{{static_cast<uint8_t>(request.front())}};
  }
  controller::TokenHash hash_of(const std::string& secret) const override {
    return {{static_cast<uint8_t>(secret.front())}};
  }
  Outcome<Papers> sign(const std::string& request, NodeId node, uint8_t roles) override {
    return Papers{
        request + " is node " + std::to_string(node.value) + ", " + engine::roles_text(roles),
        {"authority"}};
  }

  void hear(NodeId from, const AskAuthorities& said,
            const std::vector<MemberSeen>& members) override {
    has_heard = fmt::format("{} believes {}; of", from.value, said.believed.size());
    for (const MemberSeen& one : members) {
      has_heard += fmt::format(" {}{}", one.node.value, one.silent ? "?" : "");
    }
  }
  std::optional<engine::WallTime> tokens_end() const override { return end_of_tokens; }
  void finish() override { ++finished; }
  Authorities authorities() const override { return {{"authority"}, {{7}}}; }

  std::string has_heard;
  std::optional<engine::WallTime> end_of_tokens;
  int finished = 0;
};

class Proofs : public ServiceTest {
 protected:
  Proofs() {
    stop(*service_, loop_);
    signer_ = &fake_;
    service_ = make(loop_, net_, *kv_, 1);
    EXPECT_TRUE(leads());
  }
  engine::WallTime wall() { return world_.clock().wall(); }
  controller::TokenId make_token(controller::MakeToken token = {}) {
    token.hash = {{'s'}};
    token.roles = engine::kRoleStorage;
    token.ends = {token.made.nanoseconds + nanoseconds(hours(1)).count()};
    // Of the controller's own node, whose number it has in any cluster.
    const auto answer = ask_as(net_, token);
    const auto* made = answer ? std::get_if<controller::MadeToken>(&*answer) : nullptr;
    return made == nullptr ? controller::TokenId() : made->token;
  }
  AskToEnroll enroll_of(uint8_t node, const std::string& key, char secret = 's') {
    AskToEnroll ask{join_of(node), std::string(limits::kSecretBytes, secret), key, wall()};
    ask.join.facts.roles = engine::kRoleStorage;
    return ask;
  }
  static std::string papers_of(const Result<Answer>& answer) {
    if (!answer) return std::string(answer.error().name());
    if (const auto* enrolled = std::get_if<Enrolled>(&*answer)) return enrolled->papers.certificate;
    if (const auto* papers = std::get_if<Papers>(&*answer)) return papers->certificate;
    const auto* refused = std::get_if<controller::Refused>(&*answer);
    return refused == nullptr ? "something else" : refused->reason;
  }
  // The first node lets itself in.
  void admit_first() {
    controller::Join join = join_of(1);
    join.predecessor_ended = true;
    bool done = false;
    service_->admit(join, [&](const Answer&) { done = true; });
    ASSERT_TRUE(world_.run_until([&] { return done; }, std::chrono::seconds(10)));
  }

  FakeSigner fake_;
};

TEST_F(Proofs, a_token_gets_a_node_its_number_and_papers) {
  admit_first();
  EXPECT_EQ(make_token(), controller::TokenId(1));
  const auto answer = ask_as(guest_, enroll_of(2, "key"));
  EXPECT_EQ(papers_of(answer), "key is node 2, storage");
  EXPECT_EQ(papers_of(ask_as(guest_, enroll_of(2, "key"))), "key is node 2, storage")
      << "it did not hear the answer";
  EXPECT_NE(papers_of(ask_as(guest_, enroll_of(3, "other"))).find("used already"),
            std::string::npos);
  EXPECT_EQ(code_of(ask_as(guest_, enroll_of(3, "other", 'x'))), Code::access_denied);
}

TEST_F(Proofs, clocks_that_differ_are_told_before_a_token_is_used) {
  admit_first();
  make_token();
  AskToEnroll late = enroll_of(2, "key");
  late.at.nanoseconds -= nanoseconds(hours(24)).count();
  const std::string told = papers_of(ask_as(guest_, late));
  EXPECT_NE(told.find("the clocks differ"), std::string::npos) << told;
  for (const int64_t nonsense : {INT64_MIN, INT64_MAX}) {
    late.at.nanoseconds = nonsense;
    EXPECT_NE(papers_of(ask_as(guest_, late)).find("the clocks differ"), std::string::npos);
  }
  EXPECT_EQ(papers_of(ask_as(guest_, enroll_of(2, "key"))), "key is node 2, storage");
}

TEST_F(Proofs, a_node_without_a_certificate_joins_only_by_a_token) {
  admit_first();
  EXPECT_EQ(code_of(ask_as(guest_, join_of(2))), Code::access_denied);
  make_token();
  ASSERT_EQ(papers_of(ask_as(guest_, enroll_of(2, "key"))), "key is node 2, storage");
  controller::Join again = join_of(2);
  again.facts.roles = engine::kRoleStorage;
  EXPECT_EQ(code_of(ask_as(guest_, again)), Code::access_denied);
  EXPECT_EQ(code_of(ask_as(peer_, again)), Code::ok);
}

TEST_F(Proofs, who_has_the_key_gets_a_new_certificate_and_no_other) {
  admit_first();
  make_token();
  ASSERT_EQ(papers_of(ask_as(guest_, enroll_of(2, "key"))), "key is node 2, storage");
  EXPECT_EQ(papers_of(ask_as(guest_, AskCertificate{{{2}}, "key", wall()})),
            "key is node 2, storage");
  EXPECT_EQ(papers_of(ask_as(peer_, AskCertificate{{{2}}, "key", wall()})),
            "key is node 2, storage");
  EXPECT_EQ(code_of(ask_as(guest_, AskCertificate{{{2}}, "other", wall()})), Code::access_denied);
  EXPECT_EQ(code_of(ask_as(guest_, AskCertificate{{{3}}, "key", wall()})), Code::access_denied);
  ASSERT_EQ(code_of(ask_as(net_, controller::Remove{NodeId(2), true})), Code::ok);
  EXPECT_EQ(code_of(ask_as(guest_, AskCertificate{{{2}}, "key", wall()})), Code::not_permitted);
}

TEST_F(Proofs, tokens_are_listed_without_what_they_are_known_by) {
  admit_first();
  make_token();
  ASSERT_EQ(papers_of(ask_as(guest_, enroll_of(2, "key"))), "key is node 2, storage");
  const auto answer = ask_as(net_, AskTokens{});
  ASSERT_TRUE(answer && std::holds_alternative<TokensPiece>(*answer));
  const auto& piece = std::get<TokensPiece>(*answer);
  ASSERT_EQ(piece.tokens.size(), 1U);
  EXPECT_EQ(piece.tokens[0].hash, controller::TokenHash());
  EXPECT_EQ(piece.tokens[0].used_by.size(), 1U);
  EXPECT_EQ(piece.tokens[0].ends.nanoseconds - piece.tokens[0].made.nanoseconds,
            nanoseconds(hours(1)).count());
  ASSERT_EQ(code_of(ask_as(net_, controller::RevokeToken{controller::TokenId(1)})), Code::ok);
  EXPECT_EQ(code_of(ask_as(guest_, enroll_of(3, "other"))), Code::access_denied);
}

TEST_F(Proofs, members_say_whom_they_believe_and_hear_whom_to_believe) {
  admit_first();
  make_token({.uses = 2});
  ASSERT_EQ(papers_of(ask_as(guest_, enroll_of(2, "key"))), "key is node 2, storage");
  ASSERT_EQ(papers_of(ask_as(guest_, enroll_of(3, "other"))), "other is node 3, storage");
  const AskAuthorities say{{{{1}}, {{2}}}, {{1}}};
  const auto answer = ask_as(peer_, say);
  ASSERT_TRUE(answer && std::holds_alternative<Authorities>(*answer));
  EXPECT_EQ(std::get<Authorities>(*answer).signs, controller::KeyPrint{{7}});
  EXPECT_EQ(fake_.has_heard, "2 believes 2; of 1 2 3");
  // Who was removed is waited for by nobody, and hears nothing; nor do strangers.
  ASSERT_EQ(code_of(ask_as(net_, controller::Remove{NodeId(3), true})), Code::ok);
  ASSERT_EQ(code_of(ask_as(net_, say)), Code::ok);
  EXPECT_EQ(fake_.has_heard, "1 believes 2; of 1 2");
  EXPECT_EQ(code_of(ask_as(guest_, say)), Code::access_denied);
  // Who is not there is known by its lease.
  world_.run_for(std::chrono::seconds(10));
  ASSERT_EQ(code_of(ask_as(net_, say)), Code::ok);
  EXPECT_EQ(fake_.has_heard, "1 believes 2; of 1 2?");
}

TEST_F(Proofs, tokens_of_an_authority_that_was_followed_end_before_it_does) {
  admit_first();
  make_token({.uses = 9});
  world_.run_for(std::chrono::seconds(2));
  const engine::WallTime between = wall();
  world_.run_for(std::chrono::seconds(2));
  ASSERT_EQ(code_of(ask_as(net_, controller::MakeToken{.hash = {{'t'}},
                                                       .roles = engine::kRoleStorage,
                                                       .ends = {nanoseconds(hours(1)).count()}})),
            Code::ok);
  const AskAuthorities say{{{{1}}}, {{1}}};
  ASSERT_EQ(code_of(ask_as(net_, say)), Code::ok);
  EXPECT_EQ(fake_.finished, 0);
  EXPECT_EQ(code_of(ask_as(guest_, enroll_of(2, "key", 's'))), Code::ok);
  fake_.end_of_tokens = between;
  ASSERT_EQ(code_of(ask_as(net_, say)), Code::ok);
  EXPECT_EQ(fake_.finished, 1);
  EXPECT_EQ(code_of(ask_as(guest_, enroll_of(3, "third", 's'))), Code::access_denied);
  EXPECT_EQ(code_of(ask_as(guest_, enroll_of(3, "third", 't'))), Code::ok);
}

TEST_F(Proofs, keys_and_tokens_outlive_the_controller) {
  admit_first();
  make_token();
  ASSERT_EQ(papers_of(ask_as(guest_, enroll_of(2, "key"))), "key is node 2, storage");
  stop(*service_, loop_);
  service_ = make(loop_, net_, *kv_, 2);
  ASSERT_TRUE(leads());
  EXPECT_EQ(papers_of(ask_as(guest_, AskCertificate{{{2}}, "key", wall()})),
            "key is node 2, storage");
  EXPECT_NE(papers_of(ask_as(guest_, enroll_of(3, "other"))).find("used already"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock::membership
