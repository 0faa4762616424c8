#include "dist/route.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>

#include "core/text.h"

namespace poem {
namespace {

// Empty if there is no way. Connecting a datagram socket sends nothing; the system only looks for the way.
std::string source_of(const addrinfo& target) {
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  char number[NI_MAXHOST] = {};
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  const int socket = ::socket(target.ai_family, target.ai_socktype | SOCK_CLOEXEC, target.ai_protocol);
  if (socket < 0) return "";
  const bool found = ::connect(socket, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(socket, address, &size) == 0 &&
                     ::getnameinfo(address, size, number, sizeof number, nullptr, 0, NI_NUMERICHOST) == 0;
  ::close(socket);
  return found ? number : "";
}

}  // namespace

std::string source_address(const std::string& host) {
  addrinfo hints = {}, *list = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const int problem = ::getaddrinfo(host.c_str(), "9", &hints, &list);  // any port
  if (problem != 0) throw std::runtime_error(fmt::format("{}: {}", host, ::gai_strerror(problem)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> targets(list, ::freeaddrinfo);
  for (const addrinfo* target = targets.get(); target != nullptr; target = target->ai_next)
    if (const std::string own = source_of(*target); !own.empty()) return own;
  throw std::runtime_error(fmt::format("there is no route to {}", host));
}

bool is_loopback(const std::string& address) { return starts_with(address, "127.") || address == "::1"; }

}  // namespace poem
