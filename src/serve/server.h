// A service behind HTTP.
//
//   Server server(service, {"127.0.0.1", 8080});
//   server.start();   // returns once it listens
//   …
//   server.stop();    // answers what has begun, and 503 to what comes meanwhile
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "serve/service.h"

namespace poem {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                // 0: any free one
  std::string token = "";         // empty: everyone may ask; otherwise "Authorization: Bearer TOKEN"
  int64_t body_bytes = 32 << 20;  // of one request
  int connections = 64;           // served at the same time; others wait to be accepted
  int timeout = 10;  // seconds that a client may be silent, or take for a head; six times that for a body
};

class Server {
 public:
  Server(Service& service, const ServerOptions& options);  // an Error if the port cannot be used
  ~Server();
  int port() const { return port_; }
  void start();
  void stop();

 private:
  struct Http;  // httplib's header takes seconds to compile: only server.cpp sees it
  Service& service_;
  ServerOptions options_;
  int port_ = 0;
  std::unique_ptr<Http> http_;
};

}  // namespace poem
