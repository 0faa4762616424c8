// httplib's server with what it lacks: limits on the time and the memory that reading a request takes,
// connections that stay open as long as nobody else waits, and an end at which everybody who has connected
// gets an answer.
//
//   HttpServer server(/*connections=*/64);
//   server.Get("/", …);
//   std::thread thread([&] { server.listen("127.0.0.1", 8080); });
//   …
//   server.wind_down();   // handlers see winding_down() and refuse; requests that have begun are answered
//   server.stop();
//   thread.join();
#pragma once
#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "serve/service.h"

namespace poem {

class Connection;

class HttpServer : public httplib::Server {
 public:
  explicit HttpServer(int connections);  // at the same time, each with a thread

  // From now on a connection ends after its next answer. Returns when all connections that were open have
  // ended; until then new ones are accepted.
  void wind_down();
  bool winding_down() const { return winding_down_; }

  // For handlers, about the request that they answer: why no more of it was read. Empty if all was, or if the
  // client hung up.
  static std::optional<Answer> refusal();
  // For handlers: the request's Content-Type. httplib does not see it, because it would read a form itself;
  // serve/form.h says why it must not.
  static const std::string& content_type();

 private:
  bool process_and_close_socket(socket_t socket) override;  // httplib calls it in a thread of its pool
  void serve(Connection& connection);

  std::atomic<bool> winding_down_{false};
  const int threads_;
  std::atomic<int64_t> connections_{0};  // those that wait for a thread too
  std::mutex mutex_;                     // of open_
  std::condition_variable ended_;
  int64_t open_ = 0;  // connections that began before winding down
};

// What the head says about the length of the body: the largest number if the body comes in chunks. Empty if
// the head does not say it in one way that can be read, or if a header's name contains white space.
std::optional<uint64_t> body_bytes(const httplib::Request& request);

}  // namespace poem
