// CIFAR-10 and CIFAR-100 in their binary versions: records of label bytes and 3,072 pixels (planes R, G, B).
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

struct Layout {
  const char* name;
  int64_t label_bytes;  // the last of them is the label (CIFAR-100: coarse, fine)
  int64_t classes;
  const char* names_file;
};
constexpr int64_t kPixels = 3 * 32 * 32;
constexpr Layout kCifar10 = {"CIFAR-10", 1, 10, "batches.meta.txt"};
constexpr Layout kCifar100 = {"CIFAR-100", 2, 100, "fine_label_names.txt"};

std::vector<std::string> files_of(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files = numbered_files(path, "data_batch_", ".bin");
  if (files.empty() && fs::exists(path + "/train.bin")) files.push_back(path + "/train.bin");
  return files;
}

bool is_cifar(const std::string& path) {
  return fs::is_directory(path) ? !files_of(path).empty() : has_extension(path, ".bin");
}

// The official names decide. For another name it is the layout whose record size divides the file's size.
const Layout& layout_of(const std::string& file, int64_t bytes) {
  const std::string name = fs::path(file).filename().string();
  if (name == "train.bin" || name == "test.bin") return kCifar100;
  if (name.rfind("data_batch", 0) == 0 || name.rfind("test_batch", 0) == 0) return kCifar10;
  return bytes % (kPixels + 1) != 0 && bytes % (kPixels + 2) == 0 ? kCifar100 : kCifar10;
}

at::Tensor visit_file(const std::string& file, const Layout& layout, const MappedFile& mapped,
                      const Sink& sink) {
  const int64_t record = layout.label_bytes + kPixels, bytes = static_cast<int64_t>(mapped.size());
  if (bytes % record != 0)
    throw Error(file,
                fmt::format("has {} bytes, which is not a multiple of the {} bytes of a {} record", bytes,
                            record, layout.name),
                "download it again");
  const at::Tensor records =
      at::from_blob(const_cast<uint8_t*>(mapped.data()), {bytes / record, record}, at::kByte);
  const at::Tensor labels = records.select(1, layout.label_bytes - 1).to(at::kLong);
  check_labels(file, labels, 0, layout.classes - 1);
  visit_in_blocks(records.narrow(1, layout.label_bytes, kPixels).unflatten(1, {3, 32, 32}), sink);
  return labels;
}

Labels visit_cifar(const std::string& path, const ReadOptions&, const Sink& sink) {
  std::vector<at::Tensor> labels;
  const Layout* layout = nullptr;
  for (const std::string& file : files_of(path)) {
    const MappedFile mapped(file);
    layout = &layout_of(file, static_cast<int64_t>(mapped.size()));
    labels.push_back(visit_file(file, *layout, mapped, sink));
  }
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  return {at::cat(labels), read_class_names((folder / layout->names_file).string(), layout->classes)};
}

}  // namespace

extern const Reader cifar_reader = {
    "CIFAR-10 or CIFAR-100 .bin, or the folder of data_batch_N.bin or train.bin", is_cifar, visit_cifar};

}  // namespace poem
