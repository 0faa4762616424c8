// poem predict beside the least that it must do: decode every file, run the network once.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <stdio.h>  // jpeglib.h needs FILE
#include <unistd.h>

#include <jpeglib.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "compare.h"
#include "core/file.h"
#include "detect/predict.h"
#include "photos.h"
#include "poem/read.h"

namespace poem::bench {
namespace {

// libjpeg and nothing else: H×W×3 at full scale.
at::Tensor bare_decode(const std::string& bytes) {
  jpeg_decompress_struct decoder{};
  jpeg_error_mgr errors{};
  decoder.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&decoder);
  jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&decoder, TRUE);
  jpeg_start_decompress(&decoder);
  at::Tensor rows = at::empty({decoder.output_height, decoder.output_width, 3}, at::kByte);
  while (decoder.output_scanline < decoder.output_height) {
    JSAMPROW row = rows.data_ptr<uint8_t>() + decoder.output_scanline * decoder.output_width * 3;
    jpeg_read_scanlines(&decoder, &row, 1);
  }
  jpeg_finish_decompress(&decoder);
  jpeg_destroy_decompress(&decoder);
  return rows;
}

// Calls body(i) for 0 … count−1, on all threads.
template <class Body>
void for_all(size_t count, const Body& body) {
  at::parallel_for(0, static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
  });
}

void bare_predict(const std::vector<std::string>& paths, Network& network) {
  constexpr size_t kBatch = 500;
  const at::NoGradGuard no_grad;
  for (size_t first = 0; first < paths.size(); first += kBatch) {
    std::vector<at::Tensor> images(std::min(kBatch, paths.size() - first));
    for_all(images.size(), [&](size_t i) { images[i] = bare_decode(read_file(paths[first + i])); });
    keep(network.logits(network.features(at::stack(images).permute({0, 3, 1, 2}))));
  }
}

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error(command + " failed");
}

}  // namespace

POEM_BENCH(predict) {
  constexpr int64_t kImages = 10000, kSide = 64;
  const TemporaryFolder folder;
  const Detector detector = photo_detector(kSide);
  const std::vector<std::string> paths = write_photos(folder, kImages, kSide);
  compare(
      "predicting 10,000 JPEGs of 64×64 / bare decode, bare forward",
      [&] { predict(detector, {folder.path()}, [](const Prediction& p, const at::Tensor&) { keep(p); }); },
      [&] { bare_predict(paths, *detector.network); }, 1.15, 3);

  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../poem";
  detector.save(folder / "detector.safetensors");
  const std::string start = program.string() + " --version >/dev/null";
  const std::string one = fmt::format("{} --quiet predict {} {} >/dev/null", program.string(),
                                      folder / "detector.safetensors", paths[0]);
  compare(
      "predicting one image / poem --version, then 0.5 s of sleep", [&] { run(one); },
      [&] {
        run(start);
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      },
      1, 5);
}

POEM_BENCH(decode) {
  constexpr size_t kImages = 2000, kDistinct = 40;
  std::vector<std::string> files;
  for (size_t i = 0; i < kDistinct; ++i)
    files.push_back(encode_jpeg(draw_photo(480, 640, i), false, kCamera));
  compare(
      "2,000 JPEGs of 640×480 to 224×224 / libjpeg at full scale",
      [&] { for_all(kImages, [&](size_t i) { keep(read_image("", files[i % kDistinct], 224)); }); },
      [&] { for_all(kImages, [&](size_t i) { keep(bare_decode(files[i % kDistinct])); }); }, 1, 5);
}

}  // namespace poem::bench
