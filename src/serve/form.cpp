#include "serve/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "core/text.h"

namespace poem {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";
constexpr size_t kMostHead = 8 << 10, kMostLines = 16;  // of a part: bytes, and headers
constexpr size_t kMostBoundary = 70;                    // bytes, as RFC 2046 says

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_control(char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Takes the value of a header from its front, piece by piece. White space may be before every piece.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool sees(char c) {
    skip();
    return !text_.empty() && text_.front() == c;
  }
  bool at_end() {
    skip();
    return text_.empty();
  }
  bool take(char c) {
    if (!sees(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  // What is before white space and before these characters. More than the standards allow: clients send
  // such names of files and such boundaries without quotes, and they have one meaning only.
  std::string_view word(std::string_view ends) {
    skip();
    const auto end = std::find_if(text_.begin(), text_.end(),
                                  [&](char c) { return is_blank(c) || ends.find(c) != ends.npos; });
    const std::string_view word = text_.substr(0, static_cast<size_t>(end - text_.begin()));
    text_.remove_prefix(word.size());
    return word;
  }
  // What is before the next quote; empty if there is none. Browsers write a backslash for itself, and curl
  // writes one before a quote and before another backslash.
  std::optional<std::string> quoted() {
    std::string content;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '"') {
        text_.remove_prefix(i + 1);
        return content;
      }
      const bool escaped =
          text_[i] == '\\' && i + 1 < text_.size() && (text_[i + 1] == '"' || text_[i + 1] == '\\');
      content += text_[escaped ? ++i : i];
    }
    return std::nullopt;
  }

 private:
  void skip() {
    while (!text_.empty() && is_blank(text_.front())) text_.remove_prefix(1);
  }
  std::string_view text_;
};

// The value of a header: form-data; name="f"; filename=a.png
struct Value {
  std::string word;                               // in lower case
  std::map<std::string, std::string> parameters;  // their names in lower case
};

// Empty if it cannot be read in one way only.
std::optional<Value> read_value(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), is_control)) return std::nullopt;
  Scanner scanner(text);
  Value value;
  value.word = lower_case(scanner.word(";"));
  while (!scanner.at_end()) {
    if (!scanner.take(';')) return std::nullopt;
    if (scanner.at_end() || scanner.sees(';')) continue;  // some clients end with a semicolon
    const std::string name = lower_case(scanner.word("=;\""));
    if (name.empty() || !scanner.take('=')) return std::nullopt;
    std::optional<std::string> content;
    if (scanner.take('"')) {
      content = scanner.quoted();
    } else if (const std::string_view word = scanner.word(";\""); !word.empty()) {
      content = word;
    }
    if (!content || !value.parameters.emplace(name, *std::move(content)).second) return std::nullopt;
  }
  return value;
}

struct Head {  // of a part
  Value disposition;
  std::string type;  // in lower case; empty if there is none
};

class FormReader {
 public:
  FormReader(const std::string& boundary, std::string_view body, int64_t most)
      : line_("\r\n--" + boundary), body_(body), most_(most) {}
  std::vector<Upload> uploads;

  // What to answer if the form is refused. A line end precedes every boundary but the first. The search
  // takes no second look at a byte, because a boundary has no '\r' in itself.
  std::optional<Answer> read() {
    size_t next = line_.size() - kLineEnd.size();  // behind the boundary
    if (!starts_with(body_, std::string_view(line_).substr(kLineEnd.size()))) {
      const size_t first = body_.find(line_);
      if (first == body_.npos)
        return problem(400, "the form does not contain the boundary that its Content-Type names");
      if (body_.substr(0, first).find(kHeadEnd) != body_.npos)  // as a part has it
        return problem(400, "the form has an empty line before its first boundary");
      next = first + line_.size();
    }
    while (!starts_with(body_.substr(next), "--")) {
      const size_t begin = line_after(next);
      if (begin == body_.npos) return ends_badly(next);
      const size_t end = body_.find(line_, begin - kLineEnd.size());  // a part may be empty
      if (end == body_.npos) return cut_short();
      if (auto refusal = read_part(body_.substr(begin, end + kLineEnd.size() - begin))) return refusal;
      next = end + line_.size();
    }
    return read_rest(next + 2);
  }

 private:
  // Where the line after a boundary begins; npos if more follows in the boundary's line than white space.
  size_t line_after(size_t next) const {
    while (next < body_.size() && is_blank(body_[next])) ++next;
    return starts_with(body_.substr(next), kLineEnd) ? next + kLineEnd.size() : body_.npos;
  }
  // After the last boundary. Text may follow, but no part.
  std::optional<Answer> read_rest(size_t next) const {
    const bool last = trimmed(body_.substr(next)).empty();
    if (!last && line_after(next) == body_.npos) return ends_badly(next);
    if (body_.find(line_, next) != body_.npos)
      return problem(400, "the form goes on after the boundary that ends it");
    return std::nullopt;
  }
  Answer ends_badly(size_t next) const {
    const std::string_view rest = trimmed(body_.substr(next));
    return rest.empty() || rest == "-" || rest == "\r"
               ? cut_short()
               : problem(400, "the form has a line that begins with its boundary and goes on");
  }
  Answer cut_short() const {
    return problem(400, "the form is cut short: the boundary that ends it is missing");
  }
  Answer refuse(const std::string& why) const {
    return problem(400, fmt::format("part {} of the form {}", parts_, why));
  }
  Answer unclear() const {
    return refuse(
        "has a Content-Disposition that cannot be read; write form-data; name=\"…\"; filename=\"…\"");
  }

  // The part's headers, an empty line and its content, each with its '\r' and '\n'.
  std::optional<Answer> read_part(std::string_view part) {
    ++parts_;
    if (starts_with(part, kLineEnd)) return unclear();  // no headers
    const size_t end = part.substr(0, kMostHead + kHeadEnd.size()).find(kHeadEnd);
    if (end == part.npos)
      return part.size() > kMostHead ? refuse(fmt::format("has headers of more than {} bytes", kMostHead))
                                     : refuse("has no empty line after its headers");
    const auto head = read_head(part.substr(0, end));
    if (const auto* refusal = std::get_if<Answer>(&head)) return *refusal;
    part.remove_prefix(end + kHeadEnd.size());
    part.remove_suffix(std::min(part.size(), kLineEnd.size()));  // one line end may be both
    return add(std::get<Head>(head), part);
  }

  std::variant<Head, Answer> read_head(std::string_view text) const {
    std::optional<std::string_view> disposition, type;
    for (size_t lines = 0; !text.empty(); ++lines) {
      if (lines == kMostLines) return refuse(fmt::format("has more than {} headers", kMostLines));
      const std::string_view line = text.substr(0, text.find(kLineEnd));
      text.remove_prefix(std::min(text.size(), line.size() + kLineEnd.size()));
      const size_t colon = line.find(':');
      std::string_view before = line.substr(0, colon);
      while (!before.empty() && is_blank(before.back())) before.remove_suffix(1);  // mail allows it
      if (colon == line.npos || before.empty() || std::any_of(before.begin(), before.end(), is_blank) ||
          std::any_of(line.begin(), line.end(), is_control))
        return refuse("has a header that cannot be read; write NAME: VALUE in one line");
      const std::string name = lower_case(before);
      auto* const header = name == "content-disposition" ? &disposition
                           : name == "content-type"      ? &type
                                                         : nullptr;
      if (header == nullptr) continue;
      if (*header) return refuse(fmt::format("has two headers {}; send one", name));
      *header = trimmed(line.substr(colon + 1));
    }
    auto value = read_value(disposition.value_or(""));
    if (!value || value->word != "form-data" || value->parameters.count("name") == 0) return unclear();
    return Head{*std::move(value), lower_case(type.value_or(""))};
  }

  std::optional<Answer> add(const Head& head, std::string_view content) {
    const std::map<std::string, std::string>& parameters = head.disposition.parameters;
    const auto file = parameters.find("filename");
    const std::string name = file == parameters.end() ? "" : file->second;
    if (auto answer = too_long_name(name)) return answer;
    // A browser sends a field for a file without one as an empty file without a name.
    const bool image = !name.empty() || parameters.count("filename*") > 0 ||
                       starts_with(head.type, "image/") || (file != parameters.end() && !content.empty());
    if (!image && starts_with(head.type, "multipart/"))
      return refuse("has parts itself; send each file as a part of the form");
    if (!image) return std::nullopt;
    if (static_cast<int64_t>(uploads.size()) == most_) return too_many_images(most_);
    uploads.push_back({name.empty() ? fmt::format("image {}", uploads.size()) : name, content});
    return std::nullopt;
  }

  const std::string line_;  // that separates the parts, with the line feed before it
  const std::string_view body_;
  const int64_t most_;
  int64_t parts_ = 0;
};

}  // namespace

bool is_form(std::string_view content_type) {
  return lower_case(Scanner(content_type).word(";")) == "multipart/form-data";
}

std::variant<std::vector<Upload>, Answer> read_form(std::string_view content_type, std::string_view body,
                                                    int64_t most) {
  constexpr const char* kWrite = "write multipart/form-data; boundary=…";
  const std::optional<Value> type = read_value(content_type);
  if (!type) return problem(400, fmt::format("the form's Content-Type cannot be read; {}", kWrite));
  const auto boundary = type->parameters.find("boundary");
  if (boundary == type->parameters.end() || boundary->second.empty())
    return problem(400, fmt::format("the form's Content-Type names no boundary; {}", kWrite));
  if (boundary->second.size() > kMostBoundary)
    return problem(400, fmt::format("the form's boundary has {} bytes, {} are allowed",
                                    boundary->second.size(), kMostBoundary));
  FormReader reader(boundary->second, body, most);
  if (auto refusal = reader.read()) return *std::move(refusal);
  return std::move(reader.uploads);
}

}  // namespace poem
