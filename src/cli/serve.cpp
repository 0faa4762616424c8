// poem serve: a detector behind HTTP.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/file.h"
#include "core/runtime.h"
#include "poem/error.h"
#include "poem/training.h"
#include "serve/server.h"

namespace poem {
namespace {

struct Options {
  std::string detector, token_file;
  ServerOptions server;
  Batcher::Limits limits;
  int64_t body_mib = 32;
};

std::string read_token(const std::string& path) {
  std::string token = read_file(path);
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  if (token.empty()) throw Error(path, "contains no token", "write one into it, or leave the option out");
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("-._~+/=").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!std::all_of(token.begin(), token.end(), allowed))
    throw Error(path, "contains a character that no token may have",
                "write one line of letters, digits and -._~+/=");
  return token;
}

// Waits for signals, which all threads have blocked: SIGHUP loads the detector again, the others end.
void run_until_stopped(Service& service, const sigset_t& signals) {
  for (int signal = 0; sigwait(&signals, &signal) == 0 && signal == SIGHUP;) {
    try {
      service.reload();
      spdlog::info("loaded the detector again");
    } catch (const std::exception& error) {
      spdlog::error("{}; the detector before it goes on", error.what());
    }
  }
}

void run(const Options& options, const CommonOptions& common) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before the first thread starts: it inherits the mask

  ServerOptions server_options = options.server;
  set_up_service_memory(server_options.connections);
  server_options.body_bytes = options.body_mib << 20;
  if (!options.token_file.empty()) server_options.token = read_token(options.token_file);
  Service service(detector_path(options.detector), pick_device(common.device), options.limits);
  Server server(service, server_options);
  server.start();
  const std::string& host = server_options.host;
  const bool everyone = host.rfind("127.", 0) != 0 && host != "localhost" && host != "::1";
  if (everyone && server_options.token.empty())
    spdlog::warn("{} can be reached from other machines and asks for no token", server_options.host);
  const bool six = host.find(':') != std::string::npos;
  fmt::print("poem serves {} at http://{}:{}/\n", options.detector, six ? "[" + host + "]" : host,
             server.port());
  std::fflush(stdout);
  run_until_stopped(service, signals);
  spdlog::info("stopping: requests that have begun are answered; the same signal again quits at once");
  signal(SIGHUP, SIG_IGN);  // it asks for a new detector, not for the end
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  server.stop();
}

}  // namespace

void add_serve(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("serve", "Answer requests over HTTP with a detector");
  command->add_option("run", options->detector, "Run folder, or a detector.safetensors")->required();
  command->add_option("--host", options->server.host, "Address to listen at; 0.0.0.0 is every one")
      ->capture_default_str()
      ->type_name("HOST");
  command->add_option("--port", options->server.port, "Port to listen at; 0 is any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--token-file", options->token_file,
                   "File with a token that every request must bring, except for / and /healthz")
      ->type_name("FILE");
  command->add_option("--max-body", options->body_mib, "Largest request in MiB")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->type_name("MIB");
  command
      ->add_option("--max-queue", options->limits.queue, "Images that may wait before requests are refused")
      ->check(whole(1))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--batch", options->limits.batch, "Images in one forward pass")
      ->check(whole(1))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option(
          "--timeout", options->server.timeout,
          "Seconds that a client may be silent, or take for the head of a request; six times that for a body")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str()
      ->type_name("S");
  command->footer(
      "A page to try it out is at /, the description of all requests at /openapi.json, figures for "
      "Prometheus "
      "at\n/metrics. SIGHUP loads the detector again; SIGTERM or Ctrl-C answers what has begun and ends.\n"
      "Examples:\n"
      "  poem serve runs/mine\n"
      "  curl --data-binary @photo.jpg http://127.0.0.1:8080/v1/predict\n"
      "  curl -F files=@a.jpg -F files=@b.png http://127.0.0.1:8080/v1/predict");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
