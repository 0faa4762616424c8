// The one exception for mistakes that the caller or the user can correct. It says where the mistake is, what
// is wrong, and what to do about it.
//
//   throw Error(path, "has 12 bytes, expected 3073", "download it again");
//
//   try {
//     …
//   } catch (const poem::Error& error) {
//     std::cerr << error.what() << '\n';   // data.bin: has 12 bytes, expected 3073 (download it again)
//     show(error.where(), error.problem(), error.remedy());
//   }
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace poem {

class Error : public std::runtime_error {
 public:
  // `where` is a file, a config key or an argument; `remedy` may be empty. Where a remedy names an argument
  // or a field that the caller can set, it says "option NAME": "leave such images out with option skip_bad".
  Error(std::string where, std::string problem, std::string remedy = "")
      : std::runtime_error(printable(where + ": " + problem + (remedy.empty() ? "" : " (" + remedy + ")"))),
        where_(std::move(where)),
        problem_(std::move(problem)),
        remedy_(std::move(remedy)) {}

  // what() is all three as one line without control characters. The parts are as they were given.
  const std::string& where() const { return where_; }
  const std::string& problem() const { return problem_; }
  const std::string& remedy() const { return remedy_; }

  // The same error inside of `place`: "my.yaml: data.train: is missing".
  Error within(const std::string& place) const { return Error(place, where_ + ": " + problem_, remedy_); }

 private:
  // A file's name or content may contain anything.
  static std::string printable(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ') c = c == '\n' ? ' ' : '?';
    }
    return text;
  }

  std::string where_, problem_, remedy_;
};

}  // namespace poem
