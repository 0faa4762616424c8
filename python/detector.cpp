#include "poem/detector.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "poem/error.h"
#include "poem/training.h"
#include "readers/image_list.h"

namespace poem::python {
namespace {

namespace py = pybind11;

// A row of what predict() returns.
struct Prediction {
  int64_t label;
  bool known, unsure;
  double probability;
  float score;
  double threshold, p_value;
};

// A detector that several Python threads may use: one at a time computes.
struct SharedDetector {
  explicit SharedDetector(Detector loaded) : detector(std::move(loaded)) {}
  int64_t channels() const { return detector.network->spec().channels; }

  Detector detector;
  std::mutex in_use;
};

// The bytes of a str, bytes or os.PathLike; Python's own exception if it is none of them, or has a NUL in it.
std::string path_from(const py::handle& object) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(object.ptr(), &bytes) == 0) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(bytes);
}

std::unique_ptr<SharedDetector> load(const py::object& path) {
  const std::string name = path_from(path);
  return without_gil([&] { return std::make_unique<SharedDetector>(Detector::load(detector_path(name))); });
}

// Appends the predictions of the images.
void predict(const Detector& detector, const ImageSet& images, std::vector<Prediction>& to) {
  for (const Verdict& v : detector.judge(images))
    to.push_back({v.label, v.known, v.unsure, v.probability, v.score, *detector.threshold, v.p_value});
}

// Images of one array as N×C×H×W. The number of channels tells where they are.
at::Tensor channels_first(const at::Tensor& images, int64_t channels) {
  const bool first = images.dim() == 4 && images.size(1) == channels,
             last = images.dim() == 4 && images.size(3) == channels;
  if (first == last || (images.numel() == 0 && images.size(0) > 0)) {
    throw Error(
        "images", fmt::format("has shape {}", fmt::join(images.sizes(), "×")),
        fmt::format("give images × height × width × {0}, or images × {0} × height × width", channels));
  }
  return (first ? images : images.permute({0, 3, 1, 2})).contiguous();
}

std::vector<Prediction> predict_array(const SharedDetector& shared, const at::Tensor& images) {
  std::vector<Prediction> predictions;
  ImageSet set;
  set.name = "images";
  set.pixels = channels_first(images, shared.channels());
  predict(shared.detector, set, predictions);
  return predictions;
}

// One image per path, decoded by all threads, some at a time, so that memory does not grow with their number.
std::vector<Prediction> predict_files(const SharedDetector& shared, const std::vector<std::string>& paths) {
  std::vector<Prediction> predictions;
  if (paths.empty()) return predictions;
  ReadOptions options;
  options.size = shared.detector.size;
  options.on_image = [](const std::string& path, const Error* problem) {
    if (problem) throw Error(path, problem->problem(), "give the paths of image files");
  };
  visit_files(paths, options, [&](const at::Tensor& pixels) {
    ImageSet block;
    block.name = "images";
    block.pixels = pixels;
    check_channels(block, shared.channels());
    predict(shared.detector, block, predictions);
  });
  return predictions;
}

bool is_path(const py::handle& object) {
  return py::isinstance<py::str>(object) || py::hasattr(object, "__fspath__");
}

// The paths in a list or tuple of them; a list of arrays has none.
bool are_paths(const py::object& images) {
  if (!py::isinstance<py::list>(images) && !py::isinstance<py::tuple>(images)) return false;
  return std::all_of(images.begin(), images.end(), is_path);
}

py::array predict_any(SharedDetector& shared, const py::object& images) {
  std::vector<Prediction> predictions;
  if (is_path(images) || are_paths(images)) {
    std::vector<std::string> paths;
    for (const py::handle path : is_path(images) ? py::object(py::make_tuple(images)) : images)
      paths.push_back(path_from(path));
    predictions = without_gil([&] {
      const std::lock_guard lock(shared.in_use);
      return predict_files(shared, paths);
    });
  } else {
    const Array pixels = bytes_from("images", images);
    predictions = without_gil([&] {
      const std::lock_guard lock(shared.in_use);
      return predict_array(shared, pixels.tensor);
    });
  }
  return py::array_t<Prediction>(static_cast<py::ssize_t>(predictions.size()), predictions.data());
}

}  // namespace

void add_detector(py::module_& module) {
  PYBIND11_NUMPY_DTYPE_EX(Prediction, label, "class", known, "known", unsure, "unsure", probability,
                          "probability", score, "score", threshold, "threshold", p_value, "p_value");
  py::class_<SharedDetector>(module, "Detector",
                             "A trained detector: network, score, threshold and class names.")
      .def_static(
          "load", &load, py::arg("path"),
          "Read the detector that poem train wrote: its run folder, or the file detector.safetensors.")
      .def_property_readonly(
          "class_names", [](const SharedDetector& self) { return self.detector.class_names; },
          "The classes; the field class of predict() is an index into them.")
      .def_property_readonly(
          "threshold", [](const SharedDetector& self) { return self.detector.threshold; },
          "The score from which an image counts as known; None if no images were held out.")
      .def_property_readonly(
          "size", [](const SharedDetector& self) { return self.detector.size; },
          "The side of the network's input in pixels; other images are resized.")
      .def_property_readonly(
          "score", [](const SharedDetector& self) { return self.detector.score->name(); },
          "The name of its score.")
      .def("predict", &predict_any, py::arg("images"), R"(Classify images and say which are known.

images: uint8 of shape N×H×W×C or N×C×H×W, or paths of image files (one or a list of them).

Returns one row per image with the fields class (index of the most likely class_names; -1 if the network does not
classify), known (score >= threshold), unsure (not known, but above the second threshold that poem calibrate can
set), probability (of the class), score (higher means ID), threshold, and p_value (how probable such a low score is
for an image of the classes; nan for detectors without held-out scores).)")
      .def("__repr__", [](const SharedDetector& self) {
        return fmt::format("<poem.Detector: {} classes, score {}, images of {}×{}>",
                           self.detector.class_names.size(), self.detector.score->name(), self.detector.size,
                           self.detector.size);
      });
}

}  // namespace poem::python
