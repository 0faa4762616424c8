#include "poem/crops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "images/filters.h"
#include "images/resized_crop.h"
#include "poem/error.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr int64_t kGrain = 16;  // images per task: with fewer, a thread costs more than it saves

struct View {  // what one crop seed decides
  int64_t dy, dx;
  bool flip;
  double brightness, contrast, saturation, hue;
  bool jittered, grey;
  Box box;
};

struct Shape {
  int64_t channels, height, width;
  int64_t bytes() const { return channels * height * width; }
};

double factor(double range, Stream& stream) { return stream.uniform(std::max(0.0, 1 - range), 1 + range); }

// Position (dy, dx) is where the crop starts in the unpadded image; it may be negative.
View decide(uint64_t seed, const Shape& shape, const Augmentation& a) {
  Stream stream(seed, "crop");
  View view{};
  if (a.random_crop && a.min_area >= 1) {
    view.dy = static_cast<int64_t>(stream.below(shape.height + 2 * a.padding - a.size + 1)) - a.padding;
    view.dx = static_cast<int64_t>(stream.below(shape.width + 2 * a.padding - a.size + 1)) - a.padding;
  } else {
    view.dy = (shape.height - a.size) / 2;
    view.dx = (shape.width - a.size) / 2;
  }
  view.flip = stream.uniform() < 0.5 && a.flip;
  view.brightness = factor(a.brightness, stream);
  view.contrast = factor(a.contrast, stream);
  view.saturation = factor(a.saturation, stream);
  view.hue = stream.uniform(-a.hue, a.hue);
  view.jittered = stream.uniform() < a.jitter_share;
  view.grey = stream.uniform() < a.grey;
  if (a.min_area < 1) view.box = draw_box(shape.height, shape.width, a.min_area, stream);
  return view;
}

// Copies the part of the crop that lies inside the image, row by row; the rest is zero.
void crop(const uint8_t* in, const Shape& shape, const View& view, int64_t size, uint8_t* out) {
  const int64_t top = std::clamp<int64_t>(-view.dy, 0, size);
  const int64_t bottom = std::clamp<int64_t>(shape.height - view.dy, top, size);
  const int64_t left = std::clamp<int64_t>(-view.dx, 0, size);
  const int64_t right = std::clamp<int64_t>(shape.width - view.dx, left, size);
  if (bottom - top < size || right - left < size) std::memset(out, 0, shape.channels * size * size);
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = top; y < bottom; ++y) {
      const uint8_t* from = in + (c * shape.height + view.dy + y) * shape.width + view.dx + left;
      uint8_t* row = out + (c * size + y) * size;
      if (view.flip) {
        std::reverse_copy(from, from + (right - left), row + size - right);
      } else {
        std::memcpy(row + left, from, right - left);
      }
    }
  }
}

// Planes of columns become planes of rows.
void turn(const uint8_t* in, const Shape& shape, uint8_t* out) {
  for (int64_t c = 0; c < shape.channels; ++c, in += shape.height * shape.width) {
    for (int64_t y = 0; y < shape.height; ++y) {
      for (int64_t x = 0; x < shape.width; ++x) *out++ = in[x * shape.height + y];
    }
  }
}

float clip(float x) { return std::clamp(x, 0.0f, 1.0f); }

float grey(const float* rgb) { return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]; }

// Turns the hue by `shift` turns, value and chroma kept.
void turn_hue(float* rgb, float shift) {
  const float r = rgb[0], g = rgb[1], b = rgb[2];
  const float value = std::max({r, g, b}), chroma = value - std::min({r, g, b});
  if (chroma <= 0) return;
  float hue;  // in sixths of a turn
  if (value == r) {
    hue = (g - b) / chroma;
  } else if (value == g) {
    hue = 2 + (b - r) / chroma;
  } else {
    hue = 4 + (r - g) / chroma;
  }
  hue += 6 * shift + (6 * shift + hue < 0 ? 6 : 0);
  const float offset[3] = {5, 3, 1};
  for (int c = 0; c < 3; ++c) {
    float k = offset[c] + hue;
    while (k >= 6) k -= 6;
    rgb[c] = value - chroma * std::clamp(std::min(k, 4 - k), 0.0f, 1.0f);
  }
}

// Every channel becomes the image's brightness. Images without three channels stay as they are.
void remove_colour(uint8_t* image, int64_t channels, int64_t area) {
  if (channels != 3) return;
  for (int64_t i = 0; i < area; ++i) {
    const float rgb[3] = {float(image[i]), float(image[area + i]), float(image[2 * area + i])};
    image[i] = image[area + i] = image[2 * area + i] = static_cast<uint8_t>(grey(rgb) + 0.5f);
  }
}

// Colour jitter of one image in place, values in [0, 1] and clipped after every step. Saturation and hue need
// three channels and leave others alone.
void jitter(uint8_t* image, int64_t channels, int64_t area, const View& view, const Augmentation& a) {
  const bool rgb = channels == 3;
  std::vector<float> pixels(channels * area);  // pixel by pixel, since the steps mix channels
  double mean = 0;
  for (int64_t i = 0; i < area; ++i) {
    float* p = &pixels[i * channels];
    for (int64_t c = 0; c < channels; ++c) {
      p[c] = clip(image[c * area + i] * static_cast<float>(view.brightness / 255));
    }
    mean += rgb ? grey(p) : std::accumulate(p, p + channels, 0.0f) / channels;
  }
  const float middle = static_cast<float>(mean / area * (1 - view.contrast));
  const auto contrast = static_cast<float>(view.contrast), saturation = static_cast<float>(view.saturation);
  for (int64_t i = 0; i < area; ++i) {
    float* p = &pixels[i * channels];
    if (a.contrast > 0) {
      for (int64_t c = 0; c < channels; ++c) p[c] = clip(contrast * p[c] + middle);
    }
    if (rgb && a.saturation > 0) {
      const float level = (1 - saturation) * grey(p);
      for (int64_t c = 0; c < 3; ++c) p[c] = clip(saturation * p[c] + level);
    }
    if (rgb && a.hue > 0) turn_hue(p, static_cast<float>(view.hue));
    for (int64_t c = 0; c < channels; ++c) {
      image[c * area + i] = static_cast<uint8_t>(clip(p[c]) * 255 + 0.5f);
    }
  }
}

void check(const ImageSet& images, const Crop* crops, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (crops[i].image < 0 || crops[i].image >= images.size()) {
      throw Error(images.name,
                  fmt::format("has {} images, but image {} is needed", images.size(), crops[i].image),
                  "use the data that the run was started with");
    }
  }
}

bool jitters(const Augmentation& a) {
  return a.brightness > 0 || a.contrast > 0 || a.saturation > 0 || a.hue > 0;
}

bool area_only(const Augmentation& a) {
  return std::all_of(a.filters.begin(), a.filters.end(), [](Filter f) { return f == Filter::kArea; });
}

// The source of the crops: the images, or resized copies of them.
Shape resized(const ImageSet& images, const Augmentation& a) {
  if (shrinks(images, a)) return {images.channels(), a.size, a.size};
  return {images.channels(), images.height(), images.width()};
}

void check_room(const ImageSet& images, const Shape& shape, const Augmentation& a) {
  const int64_t room = std::min(shape.height, shape.width) + 2 * a.padding;
  if (a.random_crop && a.min_area >= 1 && room < a.size) {
    throw Error(images.name,
                fmt::format("images of {}×{} with a padding of {} are too small for crops of {}",
                            images.height(), images.width(), a.padding, a.size),
                "use larger images, raise outliers.padding, or set outliers.fit: resize");
  }
}

}  // namespace

Augmentation plain(int64_t size) {
  Augmentation a;
  a.size = size;
  a.padding = 0;
  a.random_crop = false;
  a.flip = false;
  a.resize = true;
  return a;
}

bool only_moves(const Augmentation& a) { return !jitters(a) && a.grey == 0 && a.min_area >= 1; }

at::Tensor crop_places(const ImageSet& images, const Crop* crops, int64_t count, const Augmentation& a) {
  check(images, crops, count);
  const Shape shape = resized(images, a);
  check_room(images, shape, a);
  at::Tensor places = at::empty({count, 4}, at::kInt);
  auto* out = places.data_ptr<int32_t>();
  at::parallel_for(0, count, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const View view = decide(crops[i].seed, shape, a);
      out[4 * i] = static_cast<int32_t>(images.row(crops[i].image));
      out[4 * i + 1] = static_cast<int32_t>(view.dy);
      out[4 * i + 2] = static_cast<int32_t>(view.dx);
      out[4 * i + 3] = view.flip;
    }
  });
  return places;
}

at::Tensor cut(const ImageSet& images, const Crop* crops, int64_t count, const Augmentation& a) {
  check(images, crops, count);
  const Shape source{images.channels(), images.height(), images.width()};
  if (images.pixels.scalar_type() == at::kFloat) {
    const auto rows = at::empty({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i) rows.data_ptr<int64_t>()[i] = images.row(crops[i].image);
    return images.pixels.index_select(0, rows);
  }
  const bool columns = !images.pixels.is_contiguous();
  TORCH_CHECK(!columns || images.pixels.transpose(2, 3).is_contiguous(), "cut: planes of rows or of columns");

  const Shape shape = resized(images, a);
  check_room(images, shape, a);
  const bool filters = shrinks(images, a) || !area_only(a);
  std::optional<Filters> filter;
  if (filters) filter = crop_filters(images, a);

  at::Tensor result = at::empty({count, source.channels, a.size, a.size}, at::kByte);
  const auto* in = images.pixels.data_ptr<uint8_t>();
  auto* out = result.data_ptr<uint8_t>();
  const int64_t stride = source.channels * a.size * a.size;
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> turned(columns ? source.bytes() : 0), small(filters ? shape.bytes() : 0);
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* image = in + images.row(crops[i].image) * source.bytes();
      if (columns) {
        turn(image, source, turned.data());
        image = turned.data();
      }
      if (filters)
        image = (*filter)(image, source.channels, crops[i].seed, small.data(),
                          is_repeated(images, crops[i].image));
      const View view = decide(crops[i].seed, shape, a);
      uint8_t* to = out + i * stride;
      if (a.min_area < 1) {
        resize_box(image, shape.channels, shape.height, shape.width, view.box, view.flip, a.size, to);
      } else {
        crop(image, shape, view, a.size, to);
      }
      if (jitters(a) && view.jittered) jitter(to, source.channels, a.size * a.size, view, a);
      if (view.grey) remove_colour(to, source.channels, a.size * a.size);
    }
  });
  return result;
}

}  // namespace poem
