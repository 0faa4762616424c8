// MNIST's own format, IDX, in which Fashion-MNIST and EMNIST come too: a header of big-endian numbers, then
// grey pixels row by row. The labels are in a second file beside the images. Both may be compressed by gzip.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/interrupts.h"
#include "core/progress.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "download it again";

// train-images-idx3-ubyte as published, or train-images.idx3-ubyte as some programs unpack it.
bool is_idx(const std::string& path) {
  for (const char* ending : {"-idx3-ubyte", ".idx3-ubyte", "-idx3-ubyte.gz", ".idx3-ubyte.gz"})
    if (has_extension(path, ending)) return true;
  return false;
}

// One file, unpacked as it is read. zlib reads files that are not compressed as they are.
class IdxFile {
 public:
  IdxFile(const std::string& path, size_t dimensions)
      : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (file_ == nullptr) throw Error(path, "cannot be opened", "check the path and its permissions");
    constexpr uint32_t kBytes = 0x0800;  // unsigned bytes; the number of dimensions follows
    if (next_number() != kBytes + dimensions)
      throw Error(path, fmt::format("is not an IDX file of {}", dimensions == 3 ? "images" : "labels"),
                  kRemedy);
    for (size_t i = 0; i < dimensions; ++i) lengths_.push_back(next_number());
  }

  const std::vector<int64_t>& lengths() const { return lengths_; }

  void read(void* to, size_t bytes) {
    if (gzread(file_.get(), to, static_cast<unsigned>(bytes)) != static_cast<int>(bytes))
      throw Error(path_, "is cut short or damaged", kRemedy);
  }

  // gzip's checksum too is compared here.
  void finish() {
    char more;
    int status = Z_OK;
    const int read = gzread(file_.get(), &more, 1);
    gzerror(file_.get(), &status);
    if (read > 0) throw Error(path_, "is longer than its header says", kRemedy);
    if (status != Z_OK) throw Error(path_, "is cut short or damaged", kRemedy);
  }

 private:
  uint32_t next_number() {
    std::array<uint8_t, 4> b;
    read(b.data(), b.size());
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
  }

  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<int64_t> lengths_;
};

// train-images-idx3-ubyte.gz → train-labels-idx1-ubyte, with or without .gz; empty if there is none.
std::string labels_file(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  const size_t images = name.rfind("images"), dimensions = name.rfind("idx3");
  if (images == name.npos || dimensions == name.npos || name.rfind("-ubyte") == name.npos) return "";
  name.replace(dimensions, 4, "idx1").replace(images, 6, "labels");
  const std::string plain = name.substr(0, name.rfind("-ubyte") + 6);
  for (const std::string& candidate : {plain, plain + ".gz"}) {
    const fs::path file = fs::path(path).parent_path() / candidate;
    if (fs::exists(file)) return file.string();
  }
  return "";
}

Labels read_labels(const std::string& path, int64_t images) {
  const std::string where = labels_file(path);
  if (where.empty()) return {};
  IdxFile file(where, 1);
  if (file.lengths()[0] != images)
    throw Error(where, fmt::format("has {} labels, but {} has {} images", file.lengths()[0], path, images),
                "put the labels that belong to the images beside them");
  const at::Tensor labels = at::empty({images}, at::kByte);
  if (images > 0) file.read(labels.data_ptr(), labels.nbytes());
  file.finish();
  const int64_t classes = images == 0 ? 0 : labels.max().item<int64_t>() + 1;
  return {labels.to(at::kLong), number_names(classes)};
}

Labels visit_idx(const std::string& path, const ReadOptions&, const Sink& sink) {
  constexpr int64_t kLongest = 4096, kBlockBytes = 16 << 20;
  IdxFile file(path, 3);
  const int64_t count = file.lengths()[0], height = file.lengths()[1], width = file.lengths()[2];
  if (height < 1 || width < 1 || height > kLongest || width > kLongest)
    throw Error(path, fmt::format("claims images of {}×{} pixels", height, width), kRemedy);
  Labels labels = read_labels(path, count);
  const int64_t step = std::max<int64_t>(1, kBlockBytes / (height * width));
  Progress bar("reading " + path, count, "images");
  for (int64_t first = 0; first < count; first += step) {
    stop_if_interrupted();
    const int64_t some = std::min(step, count - first);
    const at::Tensor grey = at::empty({some, 1, height, width}, at::kByte);
    file.read(grey.data_ptr(), grey.nbytes());
    sink(grey.expand({some, 3, height, width}).contiguous());
    bar.advance(some);
  }
  file.finish();
  return labels;
}

}  // namespace

extern const Reader idx_reader = {"MNIST's images-idx3-ubyte, also .gz", is_idx, visit_idx};

}  // namespace poem
