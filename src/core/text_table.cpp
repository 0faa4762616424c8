#include "core/text_table.h"

#include <algorithm>

namespace poem {
namespace {

using Row = TextTable::Row;

// What differs between the two forms.
struct Form {
  const char *left, *between, *right;
  bool box;
};
constexpr Form kBox = {"│ ", " │ ", " │", true}, kPlain = {"", "  ", "", false};

class Writer {
 public:
  Writer(const TextTable& table, const Terminal& where) : table_(table), where_(where) {
    for (const std::string& title : table.header) widths_.push_back(display_width(shown(title)));
    for (const Row& row : table.rows) {
      for (size_t i = 0; i < widths_.size(); ++i) {
        widths_[i] = std::max(widths_[i], display_width(shown(row.entries[i].text)));
      }
    }
    size_t total = 1;
    for (const size_t width : widths_) total += width + 3;
    form_ = where.utf8 && total <= where.columns ? kBox : kPlain;
  }

  std::string text() const {
    std::vector<TextTable::Entry> titles;
    for (const std::string& title : table_.header) titles.push_back({title});
    std::string text = rule("┌", "┬", "┐") + line(titles) + rule("├", "┼", "┤");
    for (const Row& row : table_.rows) {
      if (row.first && &row != &table_.rows.front()) text += form_.box ? rule("├", "┼", "┤") : "\n";
      text += line(row.entries);
    }
    return text + rule("└", "┴", "┘");
  }

 private:
  std::string shown(const std::string& text) const { return where_.utf8 ? text : to_ascii(text); }

  std::string rule(const char* left, const char* between, const char* right) const {
    if (!form_.box) return "";
    std::string text = left;
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (i > 0) text += between;
      for (size_t k = 0; k < widths_[i] + 2; ++k) text += "─";
    }
    return text + right + "\n";
  }

  std::string line(const std::vector<TextTable::Entry>& entries) const {
    std::string text = form_.left;
    for (size_t i = 0; i < widths_.size(); ++i) {
      const std::string entry = shown(entries[i].text), space(widths_[i] - display_width(entry), ' ');
      const std::string bold = entries[i].best ? styled(entry, Style::kBold, where_) : entry;
      text += (i == 0 ? "" : form_.between) + (i < table_.names ? bold + space : space + bold);
    }
    text += form_.right;
    return text.erase(text.find_last_not_of(' ') + 1) + "\n";
  }

  const TextTable& table_;
  const Terminal& where_;
  std::vector<size_t> widths_;
  Form form_{};
};

}  // namespace

std::string to_text(const TextTable& table, const Terminal& where) { return Writer(table, where).text(); }

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

}  // namespace poem
