#include "report/html.h"

#include <fmt/format.h>
#include "core/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace poem {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::string valid_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json_text(json(text))).get<std::string>();
}

std::string escape(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\n':
    case '\t':
      return {c};
    default:
      return static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? kReplacement : std::string(1, c);
  }
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string safe;
  for (char c : valid_utf8(text)) safe += escape(c);
  return safe;
}

std::string html_table(const Table& table) {
  const std::string caption = escape_html(table.caption);
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table class=\"sortable\">"
      "<caption>{0}</caption>\n<thead><tr>",
      caption);
  for (const Column& column : table.columns) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", column.text ? " class=\"text\"" : "",
                        escape_html(column.title));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    html += "<tr>";
    for (size_t i = 0; i < table.rows[row].size(); ++i) {
      const bool strong = std::count(table.strong.begin(), table.strong.end(), std::pair{row, i}) > 0;
      const std::string text = escape_html(table.rows[row][i]);
      html += i == 0 ? "<th scope=\"row\"" : "<td";
      html += fmt::format("{}>{}</{}>", table.columns.at(i).text ? " class=\"text\"" : "",
                          strong ? "<strong>" + text + "</strong>" : text, i == 0 ? "th" : "td");
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string html_paragraph(const std::string& text, const std::string& style) {
  return fmt::format("<p{}>{}</p>\n", style.empty() ? "" : " class=\"" + style + "\"", escape_html(text));
}

std::string html_notes(const std::vector<std::string>& notes) {
  if (notes.empty()) return "";
  std::string items;
  for (const std::string& note : notes) items += "<li>" + escape_html(note) + "</li>\n";
  return "<div class=\"note\"><ul>\n" + items + "</ul></div>\n";
}

std::string html_list(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string html = "<dl>\n";
  for (const auto& [name, content] : entries)
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(content));
  return html + "</dl>\n";
}

}  // namespace poem
