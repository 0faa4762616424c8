#include "serve/server.h"

#include "poem/error.h"

#ifdef POEM_HAS_HTTPLIB
#include <fmt/format.h>
#include <httplib.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <thread>

#include "core/asset.h"

namespace poem {
namespace {

using httplib::Request;
using httplib::Response;

constexpr const char* kJson = "application/json";
constexpr const char* kPredict = "/v1/predict";

// The time it takes does not tell how much of a guess was right.
bool same_in_constant_time(const std::string& guess, const std::string& secret) {
  unsigned difference = guess.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < guess.size(); ++i)
    difference |=
        static_cast<unsigned char>(guess[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  return difference == 0;
}

void send(const Answer& answer, Response& response) {
  response.status = answer.status;
  if (answer.status == 429 || answer.status == 503) response.set_header("Retry-After", "1");
  response.set_content(answer.body, kJson);
}

// The files of a form, in the order in which they were sent. Empty if the body was refused: it is too large,
// or no form.
std::optional<std::vector<Upload>> read_form(const httplib::ContentReader& reader) {
  std::vector<Upload> uploads;
  const bool read = reader(
      [&](const httplib::MultipartFormData& part) {
        uploads.push_back({part.filename.empty() ? part.name : part.filename, ""});
        return true;
      },
      [&](const char* data, size_t length) {
        uploads.back().bytes.append(data, length);
        return true;
      });
  return read ? std::optional(uploads) : std::nullopt;
}

std::optional<std::string> read_body(const httplib::ContentReader& reader) {
  std::string body;
  const bool read = reader([&](const char* data, size_t length) {
    body.append(data, length);
    return true;
  });
  return read ? std::optional(body) : std::nullopt;
}

// Empty if httplib has refused the body and set the status.
std::optional<Answer> predict(Service& service, const Request& request,
                              const httplib::ContentReader& reader) {
  if (request.is_multipart_form_data()) {
    const auto uploads = read_form(reader);
    return uploads ? std::optional(service.predict(*uploads)) : std::nullopt;
  }
  const auto body = read_body(reader);
  if (!body) return std::nullopt;
  if (request.get_header_value("Content-Type").rfind(kJson, 0) == 0) return service.predict_json(*body);
  if (body->empty())
    return problem(400, "the body is empty; send the bytes of an image, a form with files, or JSON");
  return service.predict({{"image", *body}});
}

}  // namespace

struct Server::Http {
  httplib::Server server;
  std::thread thread;
};

Server::Server(Service& service, const ServerOptions& options)
    : service_(service), options_(options), http_(std::make_unique<Http>()) {
  httplib::Server& server = http_->server;
  server.new_task_queue = [n = options.connections] { return new httplib::ThreadPool(n); };
  server.set_payload_max_length(options.body_bytes);
  server.set_read_timeout(options.timeout);
  server.set_write_timeout(options.timeout);
  // httplib's own choice would let two services listen at one port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });

  // Authorisation, for everything but the page itself and the sign of life.
  server.set_pre_routing_handler([this](const Request& request, Response& response) {
    const bool open = options_.token.empty() || request.path == "/" || request.path == "/healthz";
    const bool allowed =
        open || same_in_constant_time(request.get_header_value("Authorization"), "Bearer " + options_.token);
    if (allowed) return httplib::Server::HandlerResponse::Unhandled;
    response.set_header("WWW-Authenticate", "Bearer");
    send(problem(401, "this service needs the header Authorization: Bearer TOKEN"), response);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Post(kPredict,
              [this](const Request& request, Response& response, const httplib::ContentReader& reader) {
                const auto start = std::chrono::steady_clock::now();
                if (const auto answer = predict(service_, request, reader)) send(*answer, response);
                const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
                service_.metrics().add_request(kPredict, response.status, took.count());
              });
  const auto get = [&](const char* path, const char* type, auto content) {
    server.Get(path, [this, path, type, content](const Request&, Response& response) {
      response.set_content(content(), type);
      service_.metrics().add_request(path, 200, 0);
    });
  };
  get("/v1/model", kJson, [this] { return service_.model(); });
  get("/metrics", "text/plain; version=0.0.4", [this] { return service_.metrics_text(); });
  get("/openapi.json", kJson, [] { return std::string(asset("openapi.json")); });
  get("/", "text/html; charset=utf-8", [] { return std::string(asset("serve.html")); });
  server.Get("/healthz", [this](const Request&, Response& response) {
    send(service_.stopping() ? problem(503, "stopping") : Answer{200, R"({"status":"ok"})"}, response);
  });
  // What httplib refuses by itself: unknown paths, bodies and headers that are too large, bad requests.
  server.set_error_handler([this](const Request& request, Response& response) {
    if (!response.body.empty()) return;
    const std::string text =
        response.status == 404
            ? fmt::format("there is no {} {}; see /openapi.json", request.method, request.path)
        : response.status == 413 ? fmt::format("the body is larger than {} bytes", options_.body_bytes)
                                 : fmt::format("the request was refused with status {}", response.status);
    send(problem(response.status, text), response);
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
}

void Server::start() {
  http_->thread = std::thread([this] { http_->server.listen_after_bind(); });
}

void Server::stop() {
  service_.stop();
  http_->server.stop();
  if (http_->thread.joinable()) http_->thread.join();
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
