#include "readers/exif.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <iterator>
#include <optional>

namespace poem {
namespace {

constexpr std::string_view kPrefix("Exif\0\0", 6);
constexpr uint64_t kOrientation = 0x0112, kEntryBytes = 12;

// Numbers of a TIFF file; none at an offset outside of it.
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

// How many bytes a number of this TIFF type takes; 0 if it is not an integer. The standard asks for SHORT,
// but some programs store another integer.
uint64_t integer_bytes(uint64_t type) {
  constexpr uint64_t kBytes[] = {0, 1, 0, 2, 4, 0, 1, 0, 2, 4};  // 1, 3, 4 are unsigned, 6, 8, 9 signed
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

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
    const bool one = tiff.number(entry + 4, 4) == 1;
    const auto value = tiff.number(entry + 8, integer_bytes(tiff.number(entry + 2, 2).value_or(0)));
    return one && value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
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
