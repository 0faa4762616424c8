// A page that runs a detector in the visitor's browser, with onnxruntime-web. Everything is inside of the
// file, and the page may fetch nothing: images stay where they are.
//
//   const WebRuntime runtime = read_web_runtime("node_modules/onnxruntime-web/dist");
//   write_file("index.html", web_page(detector, onnx_model(detector), runtime));
#pragma once
#include <string>

namespace poem {

struct Detector;

// Files of the npm package onnxruntime-web (MIT licence), version 1.20 or newer.
struct WebRuntime {
  std::string script, glue, wasm;
};

WebRuntime read_web_runtime(const std::string& folder);  // an Error if a file is missing

// `model` is onnx_model(detector). The page shows the scores of the visitor's images among those of held-out
// ID images, if the detector has them. An Error if the network does not see colour images.
std::string web_page(const Detector& detector, const std::string& model, const WebRuntime& runtime);

}  // namespace poem
