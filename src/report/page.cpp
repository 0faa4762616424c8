#include "report/page.h"

#include <fmt/format.h>

#include "core/asset.h"
#include "core/base64.h"
#include "core/json_text.h"
#include "poem/version.h"
#include "report/html.h"

namespace poem {
namespace {

// The browser may fetch nothing, whatever a name in the data contains.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'{}; style-src 'unsafe-inline'; img-src data:";
constexpr const char* kWasm = " 'wasm-unsafe-eval' blob:; connect-src blob:";

}  // namespace

Page::Page(std::string title, std::string subtitle, std::vector<std::string> scripts)
    : title_(std::move(title)), subtitle_(std::move(subtitle)), scripts_(std::move(scripts)) {}

void Page::section(const std::string& title) { sections_.push_back({title, ""}); }

void Page::add(const std::string& html) { sections_.back().html += html; }

void Page::draw(const nlohmann::json& piece) {
  add(fmt::format("<div class=\"piece\" data-piece=\"{}\"></div>\n", pieces_.size()));
  pieces_.push_back(piece);
}

void Page::details(const std::string& summary, const std::string& html) {
  add(fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape_html(summary), html));
}

std::string Page::html() const {
  std::string links, body, script(asset("report.js"));
  for (size_t i = 0; i < sections_.size(); ++i) {
    const std::string title = escape_html(sections_[i].title);
    links += fmt::format("<li><a href=\"#s{}\">{}</a></li>\n", i + 1, title);
    body += fmt::format(
        "<section id=\"s{0}\" aria-labelledby=\"h{0}\">\n<h2 id=\"h{0}\">{1}</h2>\n{2}</section>\n", i + 1,
        title, sections_[i].html);
  }
  for (const std::string& name : scripts_) script += asset(name);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta name=\"generator\" content=\"poem {}\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n"
      "<header>\n<h1>{}</h1>\n<p class=\"subtitle\">{}</p>\n</header>\n"
      "<nav aria-label=\"Sections\"><ul>\n{}</ul></nav>\n<main>\n"
      "<noscript><p class=\"note\">A script draws the plots of this page, but scripts are switched off "
      "here.</p></noscript>\n"
      "{}</main>\n<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n"
      "</body>\n</html>\n",
      version(), fmt::format(kPolicy, wasm_ ? kWasm : ""), escape_html(title_), asset("report.css"),
      escape_html(title_), escape_html(subtitle_), links, body, script_json(pieces_), script);
}

std::string script_json(const nlohmann::json& json) {
  std::string safe;
  for (char c : json_text(json)) {
    if (c == '<')
      safe += "\\u003c";  // so that neither </script> nor <!-- can occur
    else
      safe += c;
  }
  return safe;
}

nlohmann::json packed(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  return {{"float32", base64({bytes, values.size() * sizeof(float)})}};
}

std::string picture_uri(const std::string& png) { return "data:image/png;base64," + base64(png); }

}  // namespace poem
