// SPDX-License-Identifier: MIT
// Who is let in, what a role may ask for, and what is told of those who are not.
#include <atomic>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "daemon/wire/access_book.hpp"
#include "daemon/wire/command_rights.hpp"
#include "daemon/wire/refusals.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;
using driftd::config::AccessRules;
using driftd::config::Client;
using driftd::config::kAllRoles;
using driftd::config::Roles;
using nlohmann::json;

namespace {

constexpr Roles kObserve{.observe = true, .stage = false, .command = false};
constexpr Roles kStage{.observe = false, .stage = true, .command = false};
constexpr Roles kCommand{.observe = false, .stage = false, .command = true};

AccessRules with_keys() {
  AccessRules rules;
  rules.server_public = "server";
  rules.server_secret = "secret";
  rules.clients = {{"A", {"alice", kCommand}}, {"B", {"bob", kObserve}}, {"S", {"stage1", kStage}}};
  return rules;
}

Verdict of_key(AccessBook& book, const char* key, const char* domain) {
  return book.judge(
      {.domain = domain, .address = "10.0.0.7", .mechanism = "CURVE", .public_key = key});
}

Verdict of_address(AccessBook& book, const char* address, const char* domain) {
  return book.judge({.domain = domain, .address = address, .mechanism = "NULL", .public_key = ""});
}

std::string refusal(const Roles& roles, const json& request) {
  try {
    check_right({"alice", roles}, request);
  } catch (const CommandRefused& refused) {
    CHECK(refused.code == Refusal::Forbidden);
    return refused.text;
  }
  return "";
}

std::int64_t now_ns = 0;

}  // namespace

TEST_CASE("access: a key is let in where its role may be, and known by it") {
  AccessBook book(with_keys());
  for (const auto& [key, publish, corrections] :
       {std::tuple{"A", true, true}, {"B", true, false}, {"S", true, true}, {"X", false, false}}) {
    INFO(key);
    CHECK(of_key(book, key, "publish").admitted == publish);
    CHECK(of_key(book, key, "commands").admitted == publish);
    CHECK(of_key(book, key, "corrections").admitted == corrections);
    CHECK_FALSE(of_key(book, key, "elsewhere").admitted);
  }
  const Verdict bob = of_key(book, "B", "commands");
  CHECK(bob.peer == "10.0.0.7");
  CHECK(book.client(bob.user_id) == Client{"bob", kObserve});
  CHECK(of_key(book, "X", "commands").why == "its key X is not among the allowed ones");
  CHECK(of_key(book, "B", "corrections").why ==
        "bob has the role observe, which does not connect here");
}

TEST_CASE("access: without keys whoever of this computer connects may do all") {
  AccessBook book{AccessRules{}};
  for (const char* address : {"127.0.0.1", "localhost:65534:65534:12"}) {
    const Verdict verdict = of_address(book, address, "corrections");
    REQUIRE(verdict.admitted);
    CHECK(book.client(verdict.user_id)->roles == kAllRoles);
  }
  CHECK_FALSE(of_key(book, "A", "commands").admitted);
  CHECK_FALSE(book.judge({.domain = "commands",
                          .address = "127.0.0.1",
                          .mechanism = "PLAIN",
                          .public_key = ""})
                  .admitted);
}

TEST_CASE("access: with keys nobody comes by tcp without one, and local users as before") {
  AccessBook book(with_keys());
  CHECK_FALSE(of_address(book, "127.0.0.1", "commands").admitted);
  CHECK(of_address(book, "localhost:65534:65534:12", "commands").admitted);
}

TEST_CASE("access: a local user is known by what the kernel says of it") {
  CHECK(local_user("localhost:1000:100:12")->uid == 1000);
  CHECK(local_user("localhost:1000:100:12")->gid == 100);
  CHECK(local_user("localhost:1000:100:12")->user_id() ==
        user_id_of(nullptr, "localhost:1000:100:9"));
  CHECK(user_id_of("", "localhost:1000:100:12") == user_id_of(nullptr, "localhost:1000:100:12"));
  CHECK(user_id_of("key A", "127.0.0.1") == "key A");
  for (const char* address : {"", "localhost", "localhost:", "localhost:x:1:2", "localhost:1",
                              "127.0.0.1", "localhost:1:"}) {
    INFO(address);
    const bool none = !local_user(address).has_value();
    CHECK(none);
  }
}

TEST_CASE("access: groups give roles to local users") {
  AccessRules rules;
  rules.groups = {.observe = "daemon", .stage = "", .command = ""};
  AccessBook book(rules);
  const Verdict member = of_address(book, "localhost:65534:1:12", "publish");
  REQUIRE(member.admitted);
  CHECK(book.client(member.user_id)->roles == kObserve);
  CHECK_FALSE(of_address(book, "localhost:65534:1:12", "corrections").admitted);
  CHECK_FALSE(of_address(book, "localhost:65534:65534:12", "publish").admitted);
  CHECK_FALSE(of_address(book, "127.0.0.1", "publish").admitted);
  const auto change = book.replace({});  // no groups: all
  CHECK(change.changed.size() == 2);
  CHECK(change.added == std::vector<std::string>{"tcp without a key"});
  CHECK(book.client(member.user_id)->roles == kAllRoles);
  CHECK(book.replace(rules).revoked == std::vector<std::string>{"user 65534", "tcp without a key"});
}

TEST_CASE("access: a replacement tells who came and who lost what, and holds at once") {
  AccessBook book(with_keys());
  const Verdict bob = of_key(book, "B", "publish");
  const Verdict alice = of_key(book, "A", "corrections");
  AccessRules after = with_keys();
  after.clients.erase("B");
  after.clients["A"].roles = kObserve;
  after.clients["C"] = {"carol", kCommand};
  after.server_secret = "another";
  const auto change = book.replace(after);
  CHECK(change.added == std::vector<std::string>{"carol"});
  CHECK(change.revoked == std::vector<std::string>{"bob"});
  CHECK(change.changed == std::vector<std::string>{"alice"});
  CHECK(change.fewer());
  CHECK_FALSE(book.client(bob.user_id).has_value());
  CHECK_FALSE(book.may_stay(bob.user_id, "publish"));
  CHECK(book.may_stay(alice.user_id, "publish"));
  CHECK_FALSE(book.may_stay(alice.user_id, "corrections"));
  CHECK_FALSE(of_key(book, "B", "publish").admitted);
  CHECK(book.has_keys());
  const auto none = book.replace(after);
  CHECK_FALSE(none.fewer());
  CHECK(none.added.empty());
}

TEST_CASE("access: groups close tcp without keys to those who are there") {
  AccessBook book{AccessRules{}};
  const Verdict verdict = of_address(book, "127.0.0.1", "corrections");
  AccessRules groups;
  groups.groups.observe = "daemon";
  const auto change = book.replace(groups);
  CHECK(change.fewer());
  CHECK(change.revoked == std::vector<std::string>{"tcp without a key"});
  CHECK_FALSE(book.may_stay(verdict.user_id, "corrections"));
  CHECK_FALSE(book.replace(groups).fewer());
}

TEST_CASE("access: who comes while the rules change has the roles of the new ones") {
  std::promise<void> asked;
  std::atomic<bool> first = true;
  // All that a group is named for; the first answer takes long.
  const auto roles_of = [&](const driftd::config::RoleGroups& groups, uid_t, gid_t) {
    const Roles roles{.observe = true, .stage = false, .command = !groups.command.empty()};
    if (first.exchange(false)) {
      asked.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return roles;
  };
  AccessRules before;
  before.groups = {.observe = "all", .stage = "", .command = "all"};
  AccessRules after;
  after.groups.observe = "all";
  AccessBook book(before, roles_of);
  SECTION("of one that is asked about by the old ones") {
    std::thread gatekeeper([&] { of_address(book, "localhost:1000:100:12", "publish"); });
    asked.get_future().wait();
    book.replace(after);
    gatekeeper.join();
  }
  SECTION("of one that comes while others are asked about") {
    first = false;
    of_address(book, "localhost:1001:100:12", "publish");
    first = true;
    std::thread housekeeping([&] { book.replace(after); });
    asked.get_future().wait();
    of_address(book, "localhost:1000:100:12", "publish");
    housekeeping.join();
  }
  const auto client = book.client("user 1000 100");
  REQUIRE(client.has_value());
  CHECK(client->roles == kObserve);
}

TEST_CASE("access: each role may ask for what the protocol's table says") {
  const std::vector<json> observe = {{{"command", "status"}},
                                     {{"command", "markers"}},
                                     {{"command", "markers"}, {"find", false}},
                                     {{"command", "snapshot"}},
                                     {{"command", "calibration"}},
                                     {{"command", "record"}, {"id", 7}, {"start", false}},
                                     {{"command", "place"}},
                                     {{"command", "place"}, {"show", "a"}},
                                     {{"command", "exposure"}},
                                     {{"command", "access"}}};
  const std::vector<json> command = {{{"command", "lock"}},
                                     {{"command", "unlock"}},
                                     {{"command", "reset"}},
                                     {{"command", "calibrate"}},
                                     {{"command", "calibrate"}, {"stop", true}},
                                     {{"command", "markers"}, {"find", true}},
                                     {{"command", "markers"}, {"find", 1}},
                                     {{"command", "exposure"}, {"gain_db", 3}},
                                     {{"command", "exposure"}, {"exposure_us", 3}},
                                     {{"command", "markers"}, {"add", json::array()}},
                                     {{"command", "markers"}, {"remove", {1}}},
                                     {{"command", "markers"}, {"tracking", {1}}},
                                     {{"command", "markers"}, {"witness", {1}}},
                                     {{"command", "record"}, {"start", true}},
                                     {{"command", "record"}, {"stop", true}},
                                     {{"command", "record"}, {"frames", true}},
                                     {{"command", "place"}, {"save", "a"}},
                                     {{"command", "place"}, {"show", "a"}, {"remove", "a"}},
                                     // Whatever a later version adds.
                                     {{"command", "new"}},
                                     {{"command", "record"}, {"new", 3}, {"id", 1}}};
  const json stage = {{"command", "stage"}};
  for (const Roles& roles : {kObserve, kStage, kCommand}) {
    for (const json& request : observe) CHECK(refusal(roles, request).empty());
    for (const json& request : command)
      CHECK(refusal(roles, request).empty() == (roles == kCommand));
    CHECK(refusal(roles, stage).empty() == (roles == kStage));
    for (const json& request : command) CHECK(refusal(kAllRoles, request).empty());
  }
  CHECK(refusal(kObserve, {{"command", "lock"}}) ==
        "alice has the role observe, not for lock: it may status, markers, snapshot, calibration, "
        "record, place, exposure, access");
  CHECK_FALSE(refusal(Roles{}, {{"command", "status"}}).empty());
}

TEST_CASE("access: of a peer that is refused one a minute is told, and all are counted") {
  now_ns = 0;
  Refusals refusals([]() noexcept { return now_ns; });
  for (int i = 0; i < 100; ++i) refusals.note("10.0.0.7", "wire.commands", "why");
  refusals.note("10.0.0.8", "wire.publish", "why");
  auto told = refusals.take();
  REQUIRE(told.size() == 2);
  CHECK(told[0].peer == "10.0.0.7");
  CHECK(told[0].untold == 0);
  CHECK(told[1].socket == "wire.publish");
  CHECK(refusals.take().empty());
  now_ns = 59'000'000'000;
  refusals.note("10.0.0.7", "wire.commands", "why");
  CHECK(refusals.take().empty());
  now_ns = 60'000'000'000;
  refusals.note("10.0.0.7", "wire.commands", "again");
  told = refusals.take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].untold == 100);
  CHECK(refusals.count() == 103);
}

TEST_CASE("access: a crowd of addresses is told as one") {
  now_ns = 0;
  Refusals refusals([]() noexcept { return now_ns; });
  for (int i = 0; i < 1000; ++i) refusals.note(std::to_string(i), "wire.commands", "why");
  const auto told = refusals.take();
  CHECK(told.size() == 65);
  CHECK(told.back().peer == "further addresses");
  CHECK(refusals.count() == 1000);
  now_ns = 60'000'000'000;
  refusals.note("new", "wire.commands", "why");
  REQUIRE(refusals.take().front().peer == "new");
}
