// One HTML file that stands for itself: style, script, data and pictures are inside, and nothing is fetched.
// Text and tables are HTML (report/html.h); plots are drawn in the browser by src/report/assets/report.js,
// from the data that the page carries. docs/report.md lists the pieces it can draw.
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
  // `scripts` are assets that add kinds of pieces to those of report.js.
  Page(std::string title, std::string subtitle, std::vector<std::string> scripts = {});

  void section(const std::string& title);
  void add(const std::string& html);       // to the last section
  void draw(const nlohmann::json& piece);  // a plot or control: {"kind": …} and what that kind takes
  void details(const std::string& summary, const std::string& html);  // hidden until it is opened

  std::string html() const;

 private:
  struct Section {
    std::string title, html;
  };
  std::string title_, subtitle_;
  std::vector<std::string> scripts_;
  std::vector<Section> sections_;
  nlohmann::json pieces_ = nlohmann::json::array();
};

// JSON as text that may stand inside <script type="application/json">: nothing in it ends that element.
std::string script_json(const nlohmann::json& json);

// Many numbers in few bytes: {"float32": base64}. The script takes it wherever it takes a list of numbers.
nlohmann::json packed(const std::vector<float>& values);

// A picture for an image's "src".
std::string picture_uri(const std::string& png);

}  // namespace poem
