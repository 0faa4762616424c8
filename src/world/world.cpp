#include "world/world.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/interrupts.h"
#include "core/progress.h"
#include "poem/error.h"
#include "poem/random.h"
#include "world/families.h"

namespace poem {

using world::kSide;

struct world::Family {
  const char* set;
  void (*draw)(Canvas&, Dice&);  // null for the labelled classes and the outliers

  bool outliers() const { return std::string_view(set) == "outliers"; }
  bool procedural() const { return std::string_view(set) == "procedural"; }
};

namespace {

constexpr std::array<world::Family, 10> kFamilies = {{
    {"train", nullptr},
    {"test", nullptr},
    {"outliers", nullptr},
    {"procedural", nullptr},
    {"digits", world::draw_digits},
    {"textures", world::draw_textures},
    {"scenes", world::draw_scenes},
    {"cropped", world::draw_cropped},
    {"resized", world::draw_resized},
    {"patches", world::draw_patches},
}};

void check_count(const std::string& where, int64_t count) {
  constexpr int64_t kMost = 100000000;
  if (count < 1 || count > kMost)
    throw Error(where, fmt::format("cannot draw {} images", count), fmt::format("use 1 to {}", kMost));
}

// Each group of `classes` consecutive images contains every class once, in its own random order.
int64_t label_of(uint64_t seed, const std::string& stream_name, int64_t index, int64_t classes) {
  Stream stream(seed, stream_name + "-labels", index / classes);
  return permutation(classes, stream)[index % classes];
}

at::Tensor draw_labels(uint64_t seed, const std::string& stream_name, int64_t count, int64_t classes) {
  at::Tensor labels = at::empty({count}, at::kLong);
  auto* p = labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) p[i] = label_of(seed, stream_name, i, classes);
  return labels;
}

// ---- the two-dimensional world ----

constexpr double kDeviation = 0.4;
constexpr double kMeans[3][2] = {{0, 2}, {-1.7320508, -1}, {1.7320508, -1}};  // a triangle around the origin
constexpr double kSquare = 5;                                                 // outliers fill [−5, 5]²

bool near_a_class(double x, double y) {
  for (const auto& mean : kMeans) {
    const double dx = x - mean[0], dy = y - mean[1];
    if (dx * dx + dy * dy < 4 * kDeviation * kDeviation) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> world_sets() {
  std::vector<std::string> names;
  for (const world::Family& family : kFamilies) names.emplace_back(family.set);
  return names;
}

WorldImages::WorldImages(const std::string& set, int64_t count, uint64_t seed)
    : name_("world:" + set), count_(count), seed_(seed) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const world::Family& family) { return set == family.set; });
  if (found == kFamilies.end())
    throw Error(name_, "no such set", fmt::format("use one of {}", fmt::join(world_sets(), ", ")));
  family_ = &*found;
  check_count(name_, count);
}

std::vector<std::string> WorldImages::class_names() const {
  if (family_->outliers()) return {world::kOutlierNames.begin(), world::kOutlierNames.end()};
  if (family_->procedural()) return {world::kProceduralNames.begin(), world::kProceduralNames.end()};
  if (family_->draw == nullptr) return {world::kClassNames.begin(), world::kClassNames.end()};
  return {};
}

int64_t WorldImages::draw(int64_t index, uint8_t* pixels) const {
  Stream stream(seed_, name_, static_cast<uint64_t>(index));
  world::Dice dice(stream);
  world::Canvas canvas;
  int64_t label = -1;
  if (!family_->procedural()) world::paint_background(canvas, dice);
  if (family_->procedural()) {
    label = world::draw_procedural(canvas, dice);  // which chooses the family
  } else if (family_->outliers()) {
    label = world::draw_outlier(canvas, dice);
  } else if (family_->draw == nullptr) {
    label = label_of(seed_, name_, index, world::kClasses);
    world::draw_object(static_cast<int>(label), canvas, dice);
  } else {
    family_->draw(canvas, dice);
  }
  world::photograph(canvas, dice, pixels);
  return label;
}

ImageSet draw_world(const std::string& set, int64_t count, uint64_t seed) {
  const WorldImages world(set, count, seed);
  ImageSet images{world.name(), at::empty({count, 3, kSide, kSide}, at::kByte), {}, world.class_names()};
  if (!images.class_names.empty()) images.labels = at::empty({count}, at::kLong);
  auto* out = images.pixels.data_ptr<uint8_t>();
  auto* labels = images.labelled() ? images.labels.data_ptr<int64_t>() : nullptr;
  const auto draw = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t label = world.draw(i, out + i * 3 * kSide * kSide);
      if (labels != nullptr) labels[i] = label;
    }
  };
  constexpr int64_t kBlock = 512;
  Progress bar("drawing " + world.name(), count, "images");
  for (int64_t first = 0; first < count; first += kBlock) {
    stop_if_interrupted();
    const int64_t last = std::min(first + kBlock, count);
    at::parallel_for(first, last, 8, draw);
    bar.advance(last - first);
  }
  return images;
}

double world_2d_density(double x, double y) {
  double sum = 0;
  for (const auto& mean : kMeans) {
    const double dx = (x - mean[0]) / kDeviation, dy = (y - mean[1]) / kDeviation;
    sum += std::exp(-(dx * dx + dy * dy) / 2);
  }
  return sum / (3 * 2 * M_PI * kDeviation * kDeviation);
}

ImageSet draw_world_2d(const std::string& set, int64_t count, uint64_t seed) {
  const std::string name = "world2d:" + set;
  const bool labelled = set == "train" || set == "test";
  if (!labelled && set != "outliers" && set != "ood") {
    throw Error(name, "no such set", "use one of train, test, outliers, ood");
  }
  check_count(name, count);

  ImageSet points{name, at::empty({count, 2, 1, 1}, at::kFloat), {}, {}};
  if (labelled) {
    points.labels = draw_labels(seed, name, count, 3);
    points.class_names = {"top", "left", "right"};
  }
  auto* out = points.pixels.data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    Stream stream(seed, name, i);
    double x, y;
    if (labelled) {
      const double* mean = kMeans[points.labels.data_ptr<int64_t>()[i]];
      x = mean[0] + kDeviation * stream.normal();
      y = mean[1] + kDeviation * stream.normal();
    } else {
      do {
        x = stream.uniform(-kSquare, kSquare);
        y = stream.uniform(-kSquare, kSquare);
      } while (near_a_class(x, y));
    }
    out[2 * i] = static_cast<float>(x);
    out[2 * i + 1] = static_cast<float>(y);
  }
  return points;
}

}  // namespace poem
