// A detector as an ONNX model, for any runtime that reads the format.
//
//   write_file("detector.onnx", onnx_model(Detector::load("runs/mine/detector.safetensors")));
//
// The input `images` is uint8 n×C×size×size, raw pixels: the network normalises them. The outputs are
//   score        float32 n     higher means known
//   verdict      int64 n       the class, or −1 for unknown
//   probability  float32 n     of the most likely class
//   logits       float32 n×K
//   features     float32 n×m
// A network without outputs for the classes has neither probability nor logits; its verdict is 0 for known.
#pragma once
#include <string>
#include <vector>

namespace poem {

struct Detector;

// The file's bytes. A detector without a threshold is an Error, and so is one whose score cannot be exported.
std::string onnx_model(const Detector& detector);

// The names of the scores that need no more than outputs and features of the network.
std::vector<std::string> exportable_scores();

}  // namespace poem
