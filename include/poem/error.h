// The one exception for what a user can mend: where it happened, what is wrong, how to fix it.
//
//   throw Error(path, fmt::format("has {} bytes, expected {}", got, want), "download it again");
//
// main() prints it as one line on stderr and exits with 2. Anything else that escapes is a bug (exit 1).
#pragma once
#include <stdexcept>
#include <string>

namespace poem {

class Error : public std::runtime_error {
 public:
  // `where` is a file, key or option; an empty `remedy` is left out of the message.
  Error(const std::string& where, const std::string& what, const std::string& remedy = "")
      : std::runtime_error(printable(where + ": " + what + (remedy.empty() ? "" : " (" + remedy + ")"))) {}

 private:
  // A file's content or name in a message may hold anything.
  static std::string printable(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ') c = c == '\n' ? ' ' : '?';
    }
    return text;
  }
};

}  // namespace poem
