// What is kept of an image to recognise it again, in 112 bytes: whether another image has the same pixels,
// and whether it looks the same although it was compressed again, resized, or made brighter or darker.
//
//   const std::vector<Fingerprint> marks = fingerprints(pixels);   // uint8 n×C×H×W
//   same_pixels(marks[0], marks[1]);
//   look_alike(marks[0], marks[1]);
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace poem {

struct Fingerprint {
  uint64_t pixels;  // a hash of the pixels and their shape
  // The look of the centre square, averaged to 16×16 pixels: the 64 lowest frequencies (a cosine transform)
  // of its brightness. The mean is none of them, and the contrast is divided out.
  uint64_t signs;                // bit i: wave i is positive
  std::array<int8_t, 64> waves;  // to a length of about 127; zeros if the image is flat
  // Its colours: red and blue less the brightness, halved, in 4×4 fields each; zeros if the image is grey.
  std::array<int8_t, 32> colours;

  bool flat() const;  // hardly any contrast: nothing to recognise the image by
};

uint64_t hash_of(const void* bytes, size_t count);

std::vector<Fingerprint> fingerprints(const at::Tensor& pixels);

// The hashes agree, and the waves too: by chance once in 2⁶⁴ pairs of images that look the same.
bool same_pixels(const Fingerprint& a, const Fingerprint& b);

// Near duplicates have at most kMostSigns different signs, at least kLeastLikeness, and at most kMostTint
// unless one of them is grey. Among the 147,000 photos of CIFAR-100 and Tiny-ImageNet, nearly all such pairs
// are the same photo, or the same object in the same place. Below a likeness of 0.95 a plate begins to look
// like an apple. In drawn pictures the colours tell a green leaf from a red one.
constexpr int kMostSigns = 10;
constexpr double kLeastLikeness = 0.95, kMostTint = 10;

// How many bits are set. Without the processor's own instruction, which not every x86 has, this is faster
// than std::bitset, which then calls a function that looks up bytes in a table.
inline int count_ones(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<int>(bits * 0x0101010101010101 >> 56);
}

double likeness(const Fingerprint& a, const Fingerprint& b);  // correlation of the waves, −1 … 1
double tint(const Fingerprint& a, const Fingerprint& b);  // mean difference of the colours; 0 if one is grey
bool look_alike(const Fingerprint& a, const Fingerprint& b);  // false if one of them is flat

}  // namespace poem
