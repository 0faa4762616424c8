// Images and a detector for benchmarks of a detector at work.
//
//   const Detector detector = photo_detector(64);
//   const std::vector<std::string> paths = write_photos(folder, 10000, 64);  // JPEGs of 64×64
#pragma once
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "../tests/encode_images.h"
#include "../tests/temporary_folder.h"
#include "poem/detector.h"

namespace poem::bench {

// H×W×3 with structure at every scale, as a photo has.
inline at::Tensor draw_photo(int64_t height, int64_t width, uint64_t seed) {
  at::Tensor sum = at::zeros({1, 3, height, width});
  for (const int64_t scale : {4, 16, 64}) {
    const at::Tensor coarse =
        random_bytes({1, 3, height / scale + 2, width / scale + 2}, seed + static_cast<uint64_t>(scale))
            .to(at::kFloat);
    sum += at::upsample_bilinear2d(coarse, {height, width}, /*align_corners=*/false) / 3;
  }
  return sum[0].permute({1, 2, 0}).to(at::kByte).contiguous();
}

inline std::vector<std::string> write_photos(const TemporaryFolder& folder, int64_t count, int64_t side) {
  constexpr int64_t kDistinct = 100;
  std::vector<std::string> paths;
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("{:05}.jpg", i);
    folder.put(name,
               encode_jpeg(draw_photo(side, side, static_cast<uint64_t>(i % kDistinct)), false, kCamera));
    paths.push_back(folder / name);
  }
  return paths;
}

inline Detector photo_detector(int64_t size) {  // the network of configs/my-images.yaml
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  const std::vector<std::string> classes = {"a", "b", "c", "d", "e", "f", "g", "h"};
  spec.classes = static_cast<int64_t>(classes.size());
  Detector detector{make_network(spec, 1), make_score("energy"), 0, classes, size};
  detector.network->train(false);
  return detector;
}

}  // namespace poem::bench
