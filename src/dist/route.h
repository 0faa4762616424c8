// The address of this machine that another one sees.
//
//   source_address("node1")   // "10.0.0.2", from which messages go to node1
#pragma once
#include <string>

namespace poem {

// As a number. A std::exception if the host is not known, or if there is no way to it.
std::string source_address(const std::string& host);

// Whether it leads nowhere but to the machine itself.
bool is_loopback(const std::string& address);

}  // namespace poem
