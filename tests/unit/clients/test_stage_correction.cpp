// SPDX-License-Identifier: MIT
// Which messages are corrections.
#include <string>

#include "clients/stage/correction.hpp"
#include "support/catch.hpp"

namespace driftd::stage {

TEST_CASE("a message that is no complete correction is none", "[stage]") {
  const std::string good =
      R"(correction {"v":1,"seq":212,"session":"5be1c0ffee123457","lock_id":1,"frame_id":813,)"
      R"("camera_time_ns":1,"arrival_ns":2,"sent_ns":3,"expires_ns":4,"total_x_nm":-18.204,)"
      R"("total_y_nm":7,"delta_x_nm":-0.104,"delta_y_nm":0.021,"probe":true,"limited":[]})";
  const auto read = parse_correction(good, Group::Lateral);
  REQUIRE(read);
  CHECK(read->session == "5be1c0ffee123457");
  CHECK(read->lock_id == 1);
  CHECK(read->sent_ns == 3);
  CHECK(read->expires_ns == 4);
  CHECK(read->total_nm[0] == -18.204);
  CHECK(read->total_nm[1] == 7);
  CHECK(read->delta_nm[1] == 0.021);
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return parse_correction(text.replace(at, what.size(), instead), Group::Lateral).has_value();
  };
  CHECK(with("\"probe\":true,", ""));
  for (const char* name : {"session", "lock_id", "sent_ns", "expires_ns", "total_x_nm",
                           "total_y_nm", "delta_x_nm", "delta_y_nm"}) {
    INFO(name);
    const std::string key = '"' + std::string(name) + "\":";
    CHECK_FALSE(with(key, "\"other\":"));
    CHECK_FALSE(with(key, key + "null,\"other\":"));
    CHECK_FALSE(with(key, key + "{},\"other\":"));
  }
  CHECK_FALSE(with("-18.204", "1e9"));
  CHECK_FALSE(with("-18.204", "1e999"));
  CHECK_FALSE(with("-18.204", "NaN"));
  CHECK_FALSE(with("-18.204", "\"1\""));
  CHECK_FALSE(with("\"lock_id\":1", "\"lock_id\":1.5"));
  CHECK_FALSE(with("\"lock_id\":1", "\"lock_id\":-1"));
  CHECK_FALSE(with("correction {", "corrections {"));
  CHECK_FALSE(with("correction {", "correction [{"));
  CHECK_FALSE(with("}", ""));
  for (const char* text : {"", "correction", "correction ", "correction 7", "correction null"})
    CHECK_FALSE(parse_correction(text, Group::Lateral));
  CHECK_FALSE(parse_correction(good, Group::Axial));
}

TEST_CASE("a correction of z is one of its own topic", "[stage]") {
  const std::string good =
      R"(axial {"v":1,"session":"5be1c0ffee123457","lock_id":2,"sent_ns":3,"expires_ns":4,)"
      R"("total_z_nm":-18.204,"delta_z_nm":-0.104})";
  const auto read = parse_correction(good, Group::Axial);
  REQUIRE(read);
  CHECK(read->lock_id == 2);
  CHECK(read->total_nm[0] == -18.204);
  CHECK(read->delta_nm[0] == -0.104);
  CHECK_FALSE(parse_correction(good, Group::Lateral));
  for (const char* wrong : {R"("total_z_nm":1e9)", R"("total_z_nm":1e999)", R"("total_x_nm":1)",
                            R"("total_z_nm":null)"}) {
    std::string text = good;
    CHECK_FALSE(parse_correction(text.replace(text.find("\"total_z_nm\":-18.204"), 20, wrong),
                                 Group::Axial));
  }
}

}  // namespace driftd::stage
