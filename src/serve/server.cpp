#include "serve/server.h"

#include "poem/error.h"

#ifdef POEM_HAS_HTTPLIB
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "core/asset.h"
#include "core/text.h"
#include "serve/form.h"
#include "serve/http_server.h"

namespace poem {
namespace {

using httplib::Request;
using httplib::Response;

constexpr const char* kJson = "application/json";
constexpr const char* kPredict = "/v1/predict";

// The methods of each path, as the header Allow names them.
const std::map<std::string, std::string> kMethods = {
    {"/", "GET, HEAD"},         {"/healthz", "GET, HEAD"},      {"/metrics", "GET, HEAD"},
    {"/v1/model", "GET, HEAD"}, {"/openapi.json", "GET, HEAD"}, {kPredict, "POST"}};

// The time it takes does not tell how much of a guess was right.
bool same_in_constant_time(const std::string& guess, const std::string& secret) {
  unsigned difference = guess.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < guess.size(); ++i)
    difference |=
        static_cast<unsigned char>(guess[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  return difference == 0;
}

// "Bearer TOKEN"; the first word in any case.
bool authorised(const std::string& header, const std::string& token) {
  constexpr size_t kScheme = 7;
  return lower_case(header.substr(0, kScheme)) == "bearer " &&
         same_in_constant_time(header.substr(kScheme), token);
}

void send(const Answer& answer, Response& response) {
  response.status = answer.status;
  if (answer.status == 429 || answer.status == 503) response.set_header("Retry-After", "1");
  response.set_content(answer.body, kJson);
}

Answer too_large(int64_t most) { return problem(413, fmt::format("the body is larger than {} bytes", most)); }

// Counts what arrives, unpacked.
class BodyLimit {
 public:
  explicit BodyLimit(int64_t most) : most_(most) {}
  bool take(size_t bytes) {  // false: stop reading
    taken_ += static_cast<int64_t>(bytes);
    return taken_ <= most_;
  }
  // What to answer if reading stopped; empty if the body is malformed, to which httplib gives a status.
  std::optional<Answer> refusal() const {
    return taken_ > most_ ? std::optional(too_large(most_)) : HttpServer::refusal();
  }

 private:
  const int64_t most_;
  int64_t taken_ = 0;
};

std::optional<std::string> read_body(const httplib::ContentReader& reader, BodyLimit& limit, uint64_t size) {
  std::string body;
  body.reserve(size);
  const bool read = reader([&](const char* data, size_t length) {
    body.append(data, length);
    return limit.take(length);
  });
  return read ? std::optional(std::move(body)) : std::nullopt;
}

// Empty if the body is malformed and httplib has set the status.
std::optional<Answer> predict(Service& service, const Request& request, const httplib::ContentReader& reader,
                              const ServerOptions& options) {
  const Answer empty =
      problem(400, "the body is empty; send the bytes of an image, a form with files, or JSON");
  if (body_bytes(request) == 0) return empty;
  BodyLimit limit(options.body_bytes);
  const auto body = read_body(reader, limit, request.get_header_value<uint64_t>("Content-Length"));
  if (!body) return limit.refusal();
  const std::string& type = HttpServer::content_type();
  if (lower_case(type).rfind(kJson, 0) == 0) return service.predict_json(*body);
  if (body->empty()) return empty;
  return is_form(type) ? service.predict_form(type, *body) : service.predict({{"image", *body}});
}

// Answers what can be refused before its body is read. False: it is for the handlers.
bool refuse(const Request& request, Response& response, const ServerOptions& options, bool stopping) {
  const auto with = [&](const Answer& answer) {
    send(answer, response);
    return true;
  };
  if (stopping) return with(problem(503, "the service is stopping; try again"));
  const bool open = options.token.empty() || request.path == "/" || request.path == "/healthz";
  if (!open && !authorised(request.get_header_value("Authorization"), options.token)) {
    response.set_header("WWW-Authenticate", "Bearer");
    return with(problem(401, "this service needs the header Authorization: Bearer TOKEN"));
  }
  const auto methods = kMethods.find(request.path);
  if (methods == kMethods.end())
    return with(problem(404, fmt::format("there is no {}; see /openapi.json", request.path)));
  if (methods->second.find(request.method) == std::string::npos) {
    response.set_header("Allow", methods->second);
    return with(
        problem(405, fmt::format("{} takes {}, not {}", request.path, methods->second, request.method)));
  }
  const std::optional<uint64_t> bytes = body_bytes(request);
  if (!bytes)
    return with(problem(400,
                        "Content-Length and Transfer-Encoding do not say how long the body is, or the "
                        "name of a header contains white space"));
  if (!request.has_header("Transfer-Encoding") && *bytes > static_cast<uint64_t>(options.body_bytes))
    return with(too_large(options.body_bytes));
  const std::string& type = HttpServer::content_type();
  if (is_form(type) && request.has_header("Content-Encoding"))
    return with(problem(415, "a form cannot be compressed; send it without Content-Encoding"));
  if (!is_form(type) && starts_with(lower_case(type), "multipart/"))
    return with(problem(415, "a body of several parts must be a form; send it as multipart/form-data"));
  return false;
}

// What httplib refuses by itself.
Answer explain(const Request& request, int status) {
  if (status == 400 && request.path.empty())
    return problem(400, "the first line is not that of an HTTP/1.1 request; does the client speak TLS?");
  if (status == 400) return problem(400, "the body is cut short, or is not what the headers say");
  if (status == 416) return problem(416, "the header Range cannot be understood");
  return problem(status, fmt::format("the request was refused with status {}", status));
}

}  // namespace

struct Server::Http {
  explicit Http(int connections) : server(connections) {}
  HttpServer server;
  socket_t listener = -1;
  std::thread thread;
};

Server::Server(Service& service, const ServerOptions& options)
    : service_(service), options_(options), http_(std::make_unique<Http>(options.connections)) {
  HttpServer& server = http_->server;
  server.set_read_timeout(options.timeout);
  server.set_write_timeout(options.timeout);
  server.set_payload_max_length(options.body_bytes);
  server.set_tcp_nodelay(true);  // an answer must not wait until the one before it is acknowledged
  // httplib's own choice would let two services listen at one port.
  server.set_socket_options([this](socket_t socket) {
    http_->listener = socket;
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });

  server.set_pre_routing_handler([this](const Request& request, Response& response) {
    return refuse(request, response, options_, http_->server.winding_down())
               ? httplib::Server::HandlerResponse::Handled
               : httplib::Server::HandlerResponse::Unhandled;
  });
  server.Post(kPredict,
              [this](const Request& request, Response& response, const httplib::ContentReader& reader) {
                const auto start = std::chrono::steady_clock::now();
                if (const auto answer = predict(service_, request, reader, options_)) send(*answer, response);
                const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
                service_.metrics().add_time(took.count());
              });
  const auto get = [&](const char* path, const char* type, auto content) {
    server.Get(
        path, [type, content](const Request&, Response& response) { response.set_content(content(), type); });
  };
  get("/v1/model", kJson, [this] { return service_.model(); });
  get("/metrics", "text/plain; version=0.0.4", [this] { return service_.metrics_text(); });
  get("/openapi.json", kJson, [] { return std::string(asset("openapi.json")); });
  get("/healthz", kJson, [] { return R"({"status":"ok"})"; });
  get("/", "text/html; charset=utf-8", [] { return std::string(asset("serve.html")); });
  server.set_logger([this](const Request& request, const Response& response) {
    service_.metrics().add_request(kMethods.count(request.path) > 0 ? request.path : "other",
                                   response.status);
  });
  server.set_error_handler([](const Request& request, Response& response) {
    if (response.body.empty())
      send(HttpServer::refusal().value_or(explain(request, response.status)), response);
  });
  server.set_exception_handler([](const Request&, Response& response, std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      spdlog::error("a request failed: {}", error.what());
      send(problem(500, "the request failed; the service's log says why"), response);
    }
  });

  port_ = options.port;
  const bool bound = options.port == 0 ? (port_ = server.bind_to_any_port(options.host)) > 0
                                       : server.bind_to_port(options.host, options.port);
  if (!bound)
    throw Error(fmt::format("{}:{}", options.host, options.port), "cannot listen there",
                "is the port in use, or does the address belong to another machine? choose another");
  // httplib lets 5 connections wait to be accepted. If more come at once, the kernel resets some of them.
  ::listen(http_->listener, SOMAXCONN);
}

void Server::start() {
  http_->thread = std::thread([this] { http_->server.listen_after_bind(); });
}

void Server::stop() {
  if (!http_->thread.joinable()) return;
  http_->server.wind_down();
  http_->server.stop();
  http_->thread.join();
}

Server::~Server() { stop(); }

}  // namespace poem

#else

namespace poem {

struct Server::Http {};

Server::Server(Service& service, const ServerOptions& options) : service_(service), options_(options) {
  throw Error("poem", "was built without cpp-httplib", "install libcpp-httplib-dev and build again");
}
void Server::start() {}
void Server::stop() {}
Server::~Server() = default;

}  // namespace poem

#endif
