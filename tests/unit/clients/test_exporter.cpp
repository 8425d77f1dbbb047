// SPDX-License-Identifier: MIT
// The exporter's parts: what is served of which status, that the pages and files name metrics that
// exist, and that strangers cannot take the port.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "clients/exporter/daemon_watch.hpp"
#include "clients/exporter/http_server.hpp"
#include "clients/exporter/metrics.hpp"
#include "control/lock/lock_state.hpp"
#include "control/stage/stage_monitor.hpp"
#include "support/catch.hpp"
#include "support/protocol_examples.hpp"
#include "support/source_dir.hpp"
#include "unit/clients/axial_example.hpp"

using namespace driftd;
using namespace driftd::exporter;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::string project_file(const std::string& path) {
  std::ifstream in(driftd::test::source_dir() / path);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

json example(const std::string& name) {
  return test::protocol_examples().at(name);
}

clients::Message message(const std::string& topic, const json& body) {
  clients::Message message;
  message.topic = topic;
  message.body = body;
  return message;
}

json full_status() {
  json status = example("status");
  status["interrupted"] = example("interrupted");
  status["stage_driver"] = example("stage_driver");
  status["axial"] = test::axial_held_example();
  status["pattern"] = test::pattern_example();
  return status;
}

json document_of(const json& status, std::int64_t silent_ns = 0) {
  DaemonWatch watch(kSecond, "1.2.3");
  watch.take(message("status", status), 10 * kSecond);
  return watch.document(10 * kSecond + silent_ns);
}

/// "name{labels}" -> value, of every line that is no comment.
std::map<std::string, std::string> samples_of(const std::string& text) {
  std::map<std::string, std::string> samples;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("#")) continue;
    const std::size_t space = line.rfind(' ');
    const bool is_new = samples.emplace(line.substr(0, space), line.substr(space + 1)).second;
    INFO(line);
    CHECK(is_new);
  }
  return samples;
}

std::string name_in(const std::string& sample) {
  return sample.substr(0, sample.find('{'));
}

class TestServer {
 public:
  explicit TestServer(std::string body = "hello\n")
      : server_("127.0.0.1:0",
                [body = std::move(body)](const HttpRequest& request) {
                  if (request.path != "/metrics") return Page{.status = 404, .body = "none\n"};
                  return Page{.body = body + std::string(request.accept)};
                }),
        thread_([this] { server_.run(); }) {}
  ~TestServer() {
    server_.stop();
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::uint16_t port() const {
    return static_cast<std::uint16_t>(
        std::stoi(server_.address().substr(server_.address().rfind(':') + 1)));
  }

 private:
  HttpServer server_;
  std::thread thread_;
};

class Peer {
 public:
  explicit Peer(const TestServer& server) : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(server.port());
    REQUIRE(connect(descriptor_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  }
  ~Peer() { close(descriptor_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool send(const std::string& text) const {
    return ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  /// What comes until the other side ends, or for 20 s.
  std::string rest() const {
    std::string text;
    char bytes[4096];
    for (;;) {
      pollfd wait{descriptor_, POLLIN, 0};
      if (poll(&wait, 1, 20'000) <= 0) return text + "(still open)";
      const ssize_t count = recv(descriptor_, bytes, sizeof(bytes), 0);
      if (count <= 0) return text;
      text.append(bytes, static_cast<std::size_t>(count));
    }
  }
  std::string ask(const std::string& request) const {
    send(request);
    return rest();
  }

 private:
  int descriptor_;
};

const std::string kGet = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

}  // namespace

TEST_CASE("every metric has a value from a status as docs/reference/protocol.md has it",
          "[exporter]") {
  DaemonWatch watch(kSecond, "1.2.3");
  watch.take(message("status", full_status()), kSecond);
  watch.take(message("event", example("event")), kSecond);
  const auto samples = samples_of(exposition(watch.document(2 * kSecond), Format::Prometheus));
  std::set<std::string> told;
  for (const auto& [sample, value] : samples) told.insert(name_in(sample));
  for (const Metric& metric : metrics()) {
    INFO(metric.name);
    const std::string name(metric.name);
    CHECK(told.contains(metric.kind == Kind::Histogram ? name + "_bucket" : name));
  }
  // Figures of the page's example, in base units.
  CHECK(samples.at("driftd_up") == "1");
  CHECK(samples.at("driftd_status_age_seconds") == "1");
  CHECK(samples.at("driftd_state{driftd_state=\"locked\"}") == "1");
  CHECK(samples.at("driftd_state{driftd_state=\"lost\"}") == "0");
  CHECK(samples.at("driftd_drift_rms_meters{axis=\"y\"}") == "4.9e-10");
  CHECK(samples.at("driftd_correction_meters{axis=\"x\"}") == "-1.82e-08");
  CHECK(samples.at("driftd_residual_rms_meters{axis=\"y\",loop=\"out\"}") == "6e-10");
  CHECK(samples.at("driftd_residual_noise_meters{axis=\"x\",loop=\"in\"}") == "2.1e-10");
  CHECK(samples.at("driftd_residual_mean_meters{axis=\"y\",loop=\"out\"}") == "-5e-11");
  CHECK(samples.at("driftd_sample_residual_meters{axis=\"x\"}") == "4.3e-10");
  CHECK(samples.at("driftd_markers_excluded") == "0");
  CHECK(samples.at("driftd_axial_valid") == "1");
  CHECK(samples.at("driftd_axial_info{method=\"astigmatic\",reason=\"measured\"}") == "1");
  CHECK(samples.at("driftd_z_meters") == "-3.125e-08");
  CHECK(samples.at("driftd_z_sd_meters") == "1.5e-09");
  CHECK(samples.at("driftd_axial_markers_used") == "11");
  CHECK(samples.at("driftd_axial_crossing_distance_meters") == "4.2e-08");
  CHECK(samples.at("driftd_z_state{driftd_z_state=\"locked\"}") == "1");
  CHECK(samples.at("driftd_z_state{driftd_z_state=\"holding\"}") == "0");
  CHECK(samples.at("driftd_z_in_lock") == "0");
  CHECK(samples.at("driftd_in_lock") == "1");  // that of x and y
  CHECK(samples.at("driftd_z_gate_closed_total") == "3");
  CHECK(samples.at("driftd_z_residual_rms_meters") == "7.25e-09");
  CHECK(samples.at("driftd_z_correction_meters") == "-1.825e-08");
  CHECK(samples.at("driftd_z_stage_response{driftd_z_stage_response=\"following\"}") == "1");
  CHECK(samples.at("driftd_z_stage_driver_state{driftd_z_stage_driver_state=\"ready\"}") == "1");
  CHECK(samples.at("driftd_pattern_rotation_radians") == "1.23e-05");
  CHECK(samples.at("driftd_pattern_growth_ratio") == "-3.2e-06");
  CHECK(samples.at("driftd_pattern_tilt_radians{axis=\"y\"}") == "-0.0005");
  CHECK(samples.at("driftd_pattern_tilt_sd_radians{axis=\"x\"}") == "8e-05");
  CHECK(samples.at("driftd_camera_frames_total") == "6001");
  CHECK(samples.at("driftd_camera_temperature_celsius") == "41.5");
  CHECK(samples.at("driftd_latency_seconds_bucket{part=\"total\",le=\"5e-05\"}") == "5100");
  CHECK(samples.at("driftd_latency_seconds_bucket{part=\"total\",le=\"+Inf\"}") == "6000");
  CHECK(samples.at("driftd_latency_seconds_sum{part=\"total\"}") == "0.2461");
  CHECK(samples.at("driftd_lock_interrupted{driftd_lock_interrupted=\"found\"}") == "1");
  CHECK(samples.at("driftd_lock_interrupted_moved_meters{axis=\"y\"}") == "-1.61e-08");
  CHECK(samples.at("driftd_recording") == "0");
  CHECK(samples.at("driftd_recording_problem_info{problem=\"\"}") == "1");
  CHECK(samples.at("driftd_stage_latency_seconds{quantile=\"0.99\"}") == "0.00041");
  CHECK(samples.at("driftd_events_total{level=\"info\",code=\"state_changed\"}") == "1");
}

TEST_CASE("a state set has every state there is", "[exporter]") {
  const auto states_of = [](std::string_view name) {
    for (const Metric& metric : metrics()) {
      if (metric.name == name)
        return std::set<std::string>(metric.states.begin(), metric.states.end());
    }
    return std::set<std::string>();
  };
  std::set<std::string> states;
  for (int i = 0; i <= static_cast<int>(control::LockState::Calibrating); ++i)
    states.insert(control::name_of(static_cast<control::LockState>(i)));
  CHECK(states_of("driftd_state") == states);
  CHECK(states_of("driftd_z_state") == states);
  std::set<std::string> looks;
  for (int i = 0; i <= static_cast<int>(control::StageLooks::Unexplained); ++i)
    looks.insert(control::name_of(static_cast<control::StageLooks>(i)));
  CHECK(states_of("driftd_stage_response") == looks);
  CHECK(states_of("driftd_z_stage_response") == looks);
  CHECK(states_of("driftd_z_stage_driver_state") == states_of("driftd_stage_driver_state"));
  // Those of the driver as the protocol's page lists them, and what the daemon says of a silent
  // one.
  const std::string page = project_file("docs/reference/protocol.md");
  for (const std::string& state : states_of("driftd_stage_driver_state"))
    CHECK_THAT(page, contains('`' + state + '`'));
  const std::size_t phases = page.find("`phase`: `searching`");
  REQUIRE(phases != std::string::npos);
  const std::string listed = page.substr(phases, page.find("`age_s`", phases) - phases);
  for (const std::string& state : states_of("driftd_lock_interrupted"))
    CHECK_THAT(listed, contains('`' + state + '`'));
  CHECK(states_of("driftd_lock_interrupted").size() == 3);
}

TEST_CASE("a lock that nothing interrupted has no sample", "[exporter]") {
  const auto samples = samples_of(exposition(document_of(example("status")), Format::Prometheus));
  CHECK(samples.contains("driftd_recording"));
  for (const auto& [sample, value] : samples) {
    INFO(sample);
    CHECK_FALSE(sample.starts_with("driftd_lock_interrupted"));
  }
}

TEST_CASE("z that is not measured has no sample, and nothing of it has one without axial.method",
          "[exporter]") {
  json status = full_status();
  status["axial"] = test::no_axial_example();
  auto samples = samples_of(exposition(document_of(status), Format::Prometheus));
  CHECK(samples.at("driftd_axial_valid") == "0");
  CHECK(samples.at("driftd_axial_markers_used") == "0");
  for (const char* gone :
       {"driftd_z_meters", "driftd_z_sd_meters", "driftd_axial_crossing_distance_meters"})
    CHECK_FALSE(samples.contains(gone));
  status["axial"] = test::axial_example();  // measured, and never held
  samples = samples_of(exposition(document_of(status), Format::Prometheus));
  CHECK(samples.at("driftd_z_meters") == "-3.125e-08");
  for (const auto& [sample, value] : samples) {
    INFO(sample);
    CHECK_FALSE((sample.starts_with("driftd_z_state") || sample.starts_with("driftd_z_stage") ||
                 sample.starts_with("driftd_z_in_lock")));
  }
  status["axial"] = status["pattern"] = nullptr;
  samples = samples_of(exposition(document_of(status), Format::Prometheus));
  for (const auto& [sample, value] : samples) {
    INFO(sample);
    CHECK_FALSE((sample.starts_with("driftd_axial") || sample.starts_with("driftd_z_") ||
                 sample.starts_with("driftd_pattern")));
  }
}

TEST_CASE("of a silent daemon only what stays true is told", "[exporter]") {
  const json status = full_status();
  const auto now = samples_of(exposition(document_of(status, 4 * kSecond), Format::Prometheus));
  CHECK(now.at("driftd_up") == "1");
  const auto later = samples_of(exposition(document_of(status, 6 * kSecond), Format::Prometheus));
  CHECK(later.at("driftd_up") == "0");
  CHECK(later.at("driftd_status_age_seconds") == "6");
  CHECK(later.at("driftd_camera_frames_total") == "6001");
  CHECK(
      later.contains("driftd_build_info{version=\"0.1.0\",backend=\"cpu\",estimator=\"poisson\"}"));
  for (const auto& [sample, value] : later) {
    INFO(sample);
    CHECK(name_in(sample) != "driftd_state");
    CHECK(name_in(sample) != "driftd_camera_connected");
  }
  // None has come at all.
  const auto none =
      samples_of(exposition(DaemonWatch(kSecond, "1").document(kSecond), Format::Prometheus));
  CHECK(none.at("driftd_up") == "0");
  CHECK_FALSE(none.contains("driftd_status_age_seconds"));
}

TEST_CASE("how long a state lasts is by the daemon's clock, which may be another computer's",
          "[exporter]") {
  json status = example("status");
  for (const std::int64_t up_s :
       {5, 4'000'000}) {  // the daemon's computer; this one is up for 10 s
    status["time_ns"] = up_s * kSecond;
    status["state_since_ns"] = (up_s - 3) * kSecond;
    const auto samples =
        samples_of(exposition(document_of(status, 2 * kSecond), Format::Prometheus));
    CHECK(samples.at("driftd_state_seconds") == "5");
  }
}

TEST_CASE("a daemon that tells seldom is silent later", "[exporter]") {
  DaemonWatch watch(kSecond, "1");
  json status = example("status");
  watch.take(message("status", status), 100 * kSecond);
  CHECK(watch.is_silent(106 * kSecond));
  status["time_ns"] = status["time_ns"].get<std::int64_t>() + 60 * kSecond;
  watch.take(message("status", status), 160 * kSecond);
  CHECK_FALSE(watch.is_silent(330 * kSecond));
  CHECK(watch.is_silent(341 * kSecond));
}

TEST_CASE("restarts are counted by session", "[exporter]") {
  DaemonWatch watch(kSecond, "1");
  json status = example("status");
  const auto restarts = [&] { return watch.document(0)["exporter"]["restarts"]; };
  for (const char* session : {"a", "a", "b", "b", "c"}) {
    status["session"] = session;
    watch.take(message("status", status), kSecond);
  }
  CHECK(restarts() == 2);
}

TEST_CASE("events of made-up codes do not fill the memory", "[exporter]") {
  DaemonWatch watch(kSecond, "1");
  for (int i = 0; i < 1000; ++i)
    watch.take(message("event", {{"level", "info"}, {"code", "code" + std::to_string(i)}}), 0);
  CHECK(watch.document(0)["exporter"]["events"]["info"].size() == 200);
}

TEST_CASE("values of other kinds than promised have no sample", "[exporter]") {
  json status = example("status");
  status["drift"] = "gone";
  status["state"] = 7;
  status["latency_us"]["total"]["at_most"] = {1, 2, 3};
  status["camera"]["frames"] = nullptr;
  const auto samples = samples_of(exposition(document_of(status), Format::Prometheus));
  CHECK(samples.at("driftd_up") == "1");
  CHECK_FALSE(samples.contains("driftd_camera_frames_total"));
  CHECK_FALSE(samples.contains("driftd_latency_seconds_count{part=\"total\"}"));
  CHECK(samples.contains("driftd_latency_seconds_count{part=\"fit\"}"));
  CHECK_NOTHROW(exposition(document_of(json::object()), Format::OpenMetrics));
}

TEST_CASE("a loss has what held it in the end, and what did before that", "[exporter]") {
  json status = example("status");
  status["reason"] = "held_too_long";
  status["held_for"] = "no_frames";
  status["held_first"] = "too_few_markers";
  CHECK_THAT(exposition(document_of(status), Format::Prometheus),
             contains("driftd_state_reason_info{reason=\"held_too_long\",held_for=\"no_frames\","
                      "held_first=\"too_few_markers\"} 1"));
}

TEST_CASE("labels are escaped", "[exporter]") {
  json status = example("status");
  status["camera"]["description"] = "a \"b\" \\ c\nd";
  CHECK_THAT(exposition(document_of(status), Format::Prometheus),
             contains(R"(driftd_camera_info{camera="a \"b\" \\ c\nd",pixel_format="Mono12"} 1)"));
}

TEST_CASE("OpenMetrics is what is asked for, and only then", "[exporter]") {
  CHECK(format_for("application/openmetrics-text;version=1.0.0,text/plain;q=0.5") ==
        Format::OpenMetrics);
  CHECK(format_for("text/plain") == Format::Prometheus);
  CHECK(format_for("") == Format::Prometheus);
  const std::string open = exposition(document_of(full_status()), Format::OpenMetrics);
  CHECK_THAT(open, contains("# TYPE driftd_state stateset\n"));
  CHECK_THAT(open, contains("# TYPE driftd_camera_frames counter\n"));
  CHECK_THAT(open, contains("\ndriftd_camera_frames_total 6001\n"));
  CHECK(open.ends_with("# EOF\n"));
  const std::string old = exposition(document_of(full_status()), Format::Prometheus);
  CHECK_THAT(old, contains("# TYPE driftd_state gauge\n"));
  CHECK_THAT(old, contains("# TYPE driftd_camera_frames_total counter\n"));
  CHECK_THAT(old, !contains("EOF"));
}

TEST_CASE("docs/use/watching.md has the table of metrics", "[exporter]") {
  // driftd-exporter --list-metrics prints it.
  CHECK_THAT(project_file("docs/use/watching.md"), contains(markdown()));
}

TEST_CASE("dashboard and alerts name metrics that are served", "[exporter]") {
  std::set<std::string> known;
  for (const Metric& metric : metrics()) {
    known.emplace(metric.name);
    if (metric.kind == Kind::Histogram) known.insert(std::string(metric.name) + "_bucket");
  }
  json dashboard = json::parse(project_file("clients/exporter/grafana-dashboard.json"));
  std::string expressions = project_file("clients/exporter/alerts.yaml");
  int targets = 0;
  for (const json& panel : dashboard["panels"]) {
    for (const json& target : panel["targets"]) {
      expressions += '\n' + target["expr"].get<std::string>();
      ++targets;
    }
  }
  CHECK(targets > 20);
  const std::regex name("driftd_[a-z_]+");
  int names = 0;
  for (std::sregex_iterator i(expressions.begin(), expressions.end(), name), end; i != end; ++i) {
    INFO(i->str());
    CHECK(known.contains(i->str()));
    ++names;
  }
  CHECK(names > 50);
}

TEST_CASE("GET and HEAD are answered, all else is refused in a sentence", "[exporter]") {
  const TestServer server;
  const std::string got =
      Peer(server).ask("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\nACCEPT:text/plain\r\n\r\n");
  CHECK(got.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK_THAT(got, contains("Content-Length: 16\r\n") && contains("\r\n\r\nhello\ntext/plain"));
  const std::string head = Peer(server).ask("HEAD /metrics HTTP/1.0\r\n\r\n");
  CHECK_THAT(head, contains(" 200 ") && contains("Content-Length: 6\r\n") && !contains("hello"));
  CHECK_THAT(Peer(server).ask("GET / HTTP/1.1\n\n"), contains(" 404 "));
  CHECK_THAT(Peer(server).ask("POST /metrics HTTP/1.1\r\n\r\n{\"command\":\"unlock\"}"),
             contains(" 405 ") && contains("Allow: GET, HEAD\r\n"));
  for (const char* odd : {"\r\n\r\n", "GET\r\n\r\n", "GET metrics HTTP/1.1\r\n\r\n",
                          "GET /metrics\r\n\r\n", "\x16\x03\x01 \x01 \x01 \r\n\r\n"})
    CHECK_THAT(Peer(server).ask(odd), contains(" 400 "));
}

TEST_CASE("a request without an end is refused at its limit", "[exporter]") {
  const TestServer server;
  const Peer peer(server);
  CHECK_THAT(peer.ask("GET /metrics HTTP/1.1\r\nX: " + std::string(20'000, 'x')),
             contains(" 431 "));
  CHECK_THAT(Peer(server).ask(kGet), contains(" 200 "));
}

TEST_CASE("idle connections keep nobody out", "[exporter]") {
  const TestServer server;
  std::list<Peer> crowd;
  for (int i = 0; i < 100; ++i) crowd.emplace_back(server);
  CHECK_THAT(Peer(server).ask(kGet), contains(" 200 "));
  // The oldest made room, the newest are served still.
  CHECK(crowd.front().rest().empty());
  CHECK_THAT(crowd.back().ask(kGet), contains(" 200 "));
}

TEST_CASE("a request that comes byte by byte is given up", "[exporter]") {
  const TestServer server;
  const Peer slow(server);
  const auto begin = std::chrono::steady_clock::now();
  bool open = true;
  // Five times the limit: it ends far sooner, or the limit counts each byte anew.
  while (open && std::chrono::steady_clock::now() - begin < 25s) {
    open = slow.send("x");
    std::this_thread::sleep_for(50ms);
  }
  CHECK_FALSE(open);
}

TEST_CASE("a peer that does not read delays nobody", "[exporter]") {
  std::string beyond_all_buffers;
  beyond_all_buffers.resize(50'000'000, 'm');
  const TestServer server(beyond_all_buffers);
  const Peer deaf(server);
  deaf.send(kGet);
  for (int i = 0; i < 3; ++i)
    CHECK_THAT(Peer(server).ask("GET /x HTTP/1.1\r\n\r\n"), contains(" 404 "));
}

TEST_CASE("what cannot be listened on is said", "[exporter]") {
  const auto serve = [](const HttpRequest&) { return Page{}; };
  for (const char* wrong :
       {"", "19539", "localhost:1", "127.0.0.1:", "127.0.0.1:99999", "1.2.3:x"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(HttpServer(wrong, serve), contains("ADDRESS:PORT"));
  }
  const HttpServer first("127.0.0.1:0", serve);
  CHECK_THROWS_WITH(HttpServer(first.address(), serve), contains("Address already in use"));
  CHECK(HttpServer("[::1]:0", serve).address().starts_with("[::1]:"));
}
