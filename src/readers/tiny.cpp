// 80 Million Tiny Images: one file with 3,072 bytes per image, planes R, G, B of 32×32, each column by
// column. Mapped, since the whole file has 244 GB.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "core/mapped_file.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

constexpr int64_t kSide = 32, kBytes = 3 * kSide * kSide;

// By its name, as CIFAR's files end in .bin too.
bool is_tiny(const std::string& path) {
  return has_extension(path, ".bin") && std::filesystem::path(path).filename().string().rfind("tiny", 0) == 0;
}

ImageSet map_tiny(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = static_cast<int64_t>(file.size());
  if (bytes % kBytes != 0)
    throw Error(
        path, fmt::format("has {} bytes, which is not a multiple of the {} bytes of an image", bytes, kBytes),
        "copy the file again");
  const at::Tensor columns = at::from_blob(
      const_cast<uint8_t*>(file.data()), {bytes / kBytes, 3, kSide, kSide},
      [keep = file.keep_alive()](void*) {}, at::kByte);
  return {path, columns.transpose(2, 3), {}, {}};
}

}  // namespace

extern const Reader tiny_reader = {"TinyImages (tiny*.bin)", is_tiny, nullptr, map_tiny};

}  // namespace poem
