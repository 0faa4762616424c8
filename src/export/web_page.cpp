#include "export/web_page.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base64.h"
#include "core/file.h"
#include "poem/detector.h"
#include "poem/error.h"
#include "report/html.h"
#include "report/page.h"

namespace poem {

WebRuntime read_web_runtime(const std::string& folder) {
  const auto read = [&](const char* name) {
    if (!std::filesystem::exists(folder + "/" + name))
      throw Error(folder, fmt::format("does not contain {}", name),
                  "run npm install onnxruntime-web@1.22.0, and name its folder dist with option runtime");
    return read_file(folder + "/" + name);
  };
  return {read("ort.wasm.min.mjs"), read("ort-wasm-simd-threaded.mjs"), read("ort-wasm-simd-threaded.wasm")};
}

std::string web_page(const Detector& detector, const std::string& model, const WebRuntime& runtime) {
  if (const int64_t channels = detector.network->spec().channels; channels != 3)
    throw Error("detector", fmt::format("sees images of {} channels, and browsers give 3", channels),
                "export it for another runtime");
  nlohmann::json piece = {
      {"kind", "detector"},
      {"classes", detector.class_names},
      {"score", detector.score->name()},
      {"threshold", *detector.threshold},
      {"size", detector.size},
      {"model", base64(model)},
      {"runtime",
       {{"script", base64(runtime.script)}, {"glue", base64(runtime.glue)}, {"wasm", base64(runtime.wasm)}}}};
  piece["unsure"] = detector.unsure ? nlohmann::json(detector.unsure->threshold) : nlohmann::json(nullptr);
  piece["id_scores"] = detector.held_out.empty() ? nlohmann::json(nullptr) : packed(detector.held_out);
  Page page("Known or unknown?",
            fmt::format("A detector of {} classes, in your browser: your images are not sent anywhere.",
                        detector.class_names.size()),
            {"detector.js"});
  page.run_wasm();
  page.section("Your images");
  page.draw(piece);
  page.section("Classes");
  std::string names;
  for (const std::string& name : detector.class_names) names += (names.empty() ? "" : ", ") + name;
  page.add(html_paragraph(names));
  page.add(html_paragraph("The page contains ONNX Runtime Web, copyright Microsoft Corporation, MIT licence.",
                          "quiet"));
  return page.html();
}

}  // namespace poem
