#include "readers/exif.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

namespace poem {
namespace {

constexpr std::string_view kPrefix("Exif\0\0", 6);
constexpr uint64_t kOrientation = 0x0112, kShort = 3, kEntryBytes = 12;

// Numbers of a TIFF file. What lies outside of it is no number, and neither is what is computed from one.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), little_(bytes.substr(0, 2) == "II") {}

  std::optional<uint64_t> number(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) return std::nullopt;
    uint64_t value = 0;
    for (uint64_t i = 0; i < size; ++i)
      value = value << 8 | static_cast<uint8_t>(bytes_[offset + (little_ ? size - 1 - i : i)]);
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::string_view block) {
  if (block.substr(0, kPrefix.size()) == kPrefix) block.remove_prefix(kPrefix.size());
  const std::string_view order = block.substr(0, 2);
  const Tiff tiff(block);
  if ((order != "II" && order != "MM") || tiff.number(2, 2) != 42) return 1;
  const auto directory = tiff.number(4, 4);
  const auto entries = directory ? tiff.number(*directory, 2) : std::nullopt;
  for (uint64_t i = 0; entries && i < *entries; ++i) {
    const uint64_t entry = *directory + 2 + i * kEntryBytes;
    if (tiff.number(entry, 2) != kOrientation) continue;
    const auto value = tiff.number(entry + 8, 2);
    const bool valid = tiff.number(entry + 2, 2) == kShort && tiff.number(entry + 4, 4) == 1;
    return valid && value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
  }
  return 1;
}

at::Tensor turn_upright(const at::Tensor& rows, int orientation) {
  const bool transposed = orientation >= 5;
  const bool mirrored = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool upside_down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  at::Tensor upright = transposed ? rows.transpose(0, 1) : rows;
  if (mirrored) upright = upright.flip(1);
  if (upside_down) upright = upright.flip(0);
  return upright;
}

}  // namespace poem
