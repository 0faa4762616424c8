// One self-contained HTML file: style, script, data and pictures are inside, and nothing is fetched. Text and
// tables are HTML (report/html.h). The script src/report/assets/report.js draws the plots in the browser,
// from the data in the page. docs/report.md lists the pieces that it can draw.
//
//   Page page("My run", "what it is about");
//   page.section("Training");
//   page.add("<p>" + escape_html(remark) + "</p>");
//   page.draw({{"kind", "lines"}, {"title", "Loss"}, {"x", {{"label", "epoch"}}}, {"y", {{"label", "loss"}}},
//              {"series", {{{"label", "POEM"}, {"x", epochs}, {"y", losses}}}}});
//   write_file("report.html", page.html());
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace poem {

class Page {
 public:
  // `scripts` are assets that define more kinds of pieces than report.js.
  Page(std::string title, std::string subtitle, std::vector<std::string> scripts = {});

  void section(const std::string& title);
  void add(const std::string& html);       // to the last section
  void draw(const nlohmann::json& piece);  // a plot or control: {"kind": …} and the data of that kind
  // Lets the page's script run WebAssembly, and scripts that the page contains as data.
  void run_wasm() { wasm_ = true; }
  void details(const std::string& summary, const std::string& html);  // hidden until it is opened

  std::string html() const;

 private:
  struct Section {
    std::string title, html;
  };
  std::string title_, subtitle_;
  std::vector<std::string> scripts_;
  std::vector<Section> sections_;
  bool wasm_ = false;
  nlohmann::json pieces_ = nlohmann::json::array();
};

// JSON as text for the inside of <script type="application/json">: nothing in it ends that element.
std::string script_json(const nlohmann::json& json);

// Many numbers in few bytes: {"float32": base64}. The script accepts it in place of any list of numbers.
nlohmann::json packed(const std::vector<float>& values);

// A picture as the "src" of an image.
std::string picture_uri(const std::string& png);

}  // namespace poem
