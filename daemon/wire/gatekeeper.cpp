// SPDX-License-Identifier: MIT
#include "daemon/wire/gatekeeper.hpp"

#include <pthread.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>

namespace driftd::daemon {
namespace {

constexpr int kThreads = 2;
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kZ85Characters = 40;

std::string z85(const zmq::message_t& key) {
  if (key.size() != kKeyBytes) return "";
  std::array<char, kZ85Characters + 1> text{};
  zmq_z85_encode(text.data(), key.data<std::uint8_t>(), key.size());
  return text.data();
}

/// version, request id, domain, address, identity, mechanism, credentials
Applicant applicant_of(const std::vector<zmq::message_t>& request) {
  return {.domain = request[2].to_string_view(),
          .address = request[3].to_string_view(),
          .mechanism = request[5].to_string_view(),
          .public_key = request.size() > 6 ? z85(request[6]) : ""};
}

/// A ROUTER of libzmq 4.3 numbers peers that have no name on from rand(), which it does not seed. A
/// peer that had named itself by a number to come would end the process by an assertion there.
void seed_numbers_of_peers() {
  unsigned seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw std::system_error(errno, std::generic_category(), "no random numbers");
  std::srand(seed);
}

}  // namespace

Gatekeeper::Gatekeeper(AccessBook& book, Refusals& refusals, std::atomic<std::uint64_t>& ended)
    : book_(book),
      refusals_(refusals),
      ended_(ended),
      context_(kThreads),
      replies_(context_, zmq::socket_type::rep),
      news_(context_, zmq::socket_type::pull),
      to_news_(context_, zmq::socket_type::push) {
  seed_numbers_of_peers();
  replies_.set(zmq::sockopt::linger, 0);
  replies_.bind("inproc://zeromq.zap.01");  // libzmq looks for it under this name
  to_news_.set(zmq::sockopt::linger, 0);
  news_.bind("inproc://news");
  to_news_.connect("inproc://news");
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "driftd-zap");
    run();
  });
}

Gatekeeper::~Gatekeeper() {
  context_.shutdown();  // ends the wait in run()
  thread_.join();
}

ConnectionBound& Gatekeeper::guard(zmq::socket_t& socket, const std::string& key,
                                   const std::string& domain,
                                   const std::function<void(ConnectionBound&)>& bind) {
  auto bound = std::make_unique<ConnectionBound>(
      context_, socket, key, domain,
      ConnectionBound::Counters{.ended = ended_, .refusals = refusals_});
  bind(*bound);
  ConnectionBound& result = *bound;
  {
    const std::lock_guard lock(mutex_);
    bounds_.push_back(std::move(bound));
  }
  tell(News::Bound);
  return result;
}

void Gatekeeper::end_revoked() {
  tell(News::Revoked);
}

void Gatekeeper::tell(News news) {
  to_news_.send(zmq::buffer(&news, sizeof(news)), zmq::send_flags::none);
}

void Gatekeeper::run() noexcept {
  std::vector<ConnectionBound*> bounds;
  std::vector<zmq::pollitem_t> items = {{replies_.handle(), 0, ZMQ_POLLIN, 0},
                                        {news_.handle(), 0, ZMQ_POLLIN, 0}};
  const auto take_news = [&] {
    zmq::message_t message;
    if (!news_.recv(message) || message.size() != sizeof(News)) return;
    if (*message.data<News>() == News::Bound) {
      const std::lock_guard lock(mutex_);
      bounds.push_back(bounds_[bounds.size()].get());
      items.push_back({bounds.back()->events().handle(), 0, ZMQ_POLLIN, 0});
      return;
    }
    for (ConnectionBound* bound : bounds) {
      revoked_ += bound->end_others(
          [&](const std::string& user_id) { return book_.may_stay(user_id, bound->domain()); });
    }
  };
  for (bool over = false; !over;) {
    try {
      zmq::poll(items.data(), items.size(), std::chrono::milliseconds(-1));
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        if (items[2 + i].revents != 0) bounds[i]->take_events();
      }
      if (items[0].revents != 0) answer_one();
      if (items[1].revents != 0) take_news();
    } catch (const zmq::error_t& error) {
      over = error.num() == ETERM;  // anything else concerns one request; the peer's time runs out
    }
  }
  replies_.close();
}

void Gatekeeper::answer_one() {
  std::vector<zmq::message_t> request;
  do {
    zmq::message_t part;
    if (!replies_.recv(part)) return;
    request.push_back(std::move(part));
  } while (request.back().more());
  Verdict verdict;
  bool keyed = false;
  constexpr std::size_t kLeastParts = 6;
  if (request.size() >= kLeastParts && request[0].to_string_view() == "1.0") {
    const Applicant applicant = applicant_of(request);
    verdict = book_.judge(applicant);
    keyed = applicant.mechanism == "CURVE";
    if (!verdict.admitted)
      refusals_.note(verdict.peer, "wire." + std::string(applicant.domain), verdict.why);
  }
  const std::string id = request.size() > 1 ? request[1].to_string() : "";
  const std::string_view code = verdict.admitted ? "200" : "400";
  const std::string_view text = verdict.admitted ? "OK" : "not admitted";
  // A local user's id shows by its socket; with one from here libzmq would put a message of its own
  // before the peer's first, for which there is no room where one may wait.
  const std::string_view user_id = keyed ? std::string_view(verdict.user_id) : "";
  for (const std::string_view part :
       {std::string_view("1.0"), std::string_view(id), code, text, user_id}) {
    replies_.send(zmq::buffer(part), zmq::send_flags::sndmore);
  }
  replies_.send(zmq::message_t(), zmq::send_flags::none);  // no metadata
}

}  // namespace driftd::daemon
