#include "detect/predict.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/npy.h"
#include "core/safetensors.h"
#include "detect/predictions_output.h"
#include "encode_images.h"
#include "expect_error.h"
#include "poem/read.h"
#include "temporary_folder.h"
#include "world/world.h"

namespace poem {
namespace {

Detector small_detector() {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.classes = 8;
  Detector detector{make_network(spec, 5), make_score("energy"), 1.25, draw_world("train", 8, 1).class_names};
  set_threshold(detector, to_floats(detector.scores(draw_world("test", 40, 9))), 0.9);
  return detector;
}

std::vector<Prediction> predictions_of(const Detector& detector, const std::vector<std::string>& sources) {
  std::vector<Prediction> all;
  predict(detector, sources, [&](const Prediction& one, const at::Tensor& pixels) {
    EXPECT_EQ(pixels.defined(), one.error.empty());
    all.push_back(one);
  });
  return all;
}

std::vector<Prediction> predictions_of_stream(const Detector& detector, const std::string& bytes) {
  std::istringstream stream(bytes);
  std::vector<Prediction> all;
  predict_stream(detector, stream, [&](const Prediction& one, const at::Tensor&) { all.push_back(one); });
  return all;
}

std::vector<std::string> paths_of(const std::vector<Prediction>& predictions) {
  std::vector<std::string> paths;
  for (const Prediction& one : predictions) paths.push_back(one.path);
  return paths;
}

std::string png(uint64_t seed, int64_t side = 32) { return encode_png(random_bytes({side, side, 3}, seed)); }

TEST(Verdict, PValuesAreRanksAmongTheHeldOutImages) {
  const Detector detector = small_detector();
  const ImageSet images = draw_world("digits", 30, 2);
  const std::vector<Verdict> verdicts = detector.judge(images);
  for (const Verdict& verdict : verdicts) {
    int at_most = 0;
    for (const float score : detector.held_out) at_most += score <= verdict.score;
    EXPECT_DOUBLE_EQ(verdict.p_value, (1 + at_most) / 41.0);
  }
  Detector without = detector;
  without.held_out.clear();
  EXPECT_TRUE(std::isnan(without.judge(images)[0].p_value));
}

TEST(Verdict, IsTheSameOfAnArrayAndOfFiles) {
  const Detector detector = small_detector();
  const std::vector<std::vector<int64_t>> shapes = {{32, 96}, {70, 32}, {20, 20}, {100, 64}, {32, 32}};
  for (const std::vector<int64_t>& shape : shapes) {
    const at::Tensor rows = random_bytes({shape[0], shape[1], 3}, 3);
    const ImageSet array{"array", rows.permute({2, 0, 1}).unsqueeze(0).contiguous(), {}, {}};
    const at::Tensor file = read_image("file.png", encode_png(rows), detector.size, 1 << 20);
    EXPECT_FLOAT_EQ(detector.judge(array)[0].score, detector.judge(file.unsqueeze(0))[0].score)
        << shape[0] << "×" << shape[1];
  }
}

TEST(Verdict, ProbabilitiesAreThoseOfTheSoftmax) {
  Detector detector = small_detector();
  detector.temperature = 0.25;
  const ImageSet images = draw_world("test", 5, 2);
  const at::Tensor logits = detector.logits(images);
  const std::vector<Verdict> verdicts = detector.judge(images);
  for (int64_t i = 0; i < 5; ++i) {
    double sum = 0, largest = 0;
    for (int64_t k = 0; k < 8; ++k) {
      const double weight = std::exp(logits[i][k].item<double>() / 0.25);
      sum += weight;
      largest = std::max(largest, weight);
    }
    EXPECT_NEAR(verdicts[i].probability, largest / sum, 1e-12);
  }
}

TEST(Verdict, SaysWhatItMeans) {
  Detector detector = small_detector();
  detector.unsure = UnsureRange{0, 0.99};
  EXPECT_EQ(detector.word({2, 1, true}), detector.class_names[2]);
  EXPECT_EQ(detector.word({2, 1, false, true}), "unsure");
  EXPECT_EQ(detector.word({2, 1, false}), "unknown");
  EXPECT_EQ(detector.word({-1, 1, true}), "known");
}

TEST(Verdict, OfATensorIsThatOfTheImages) {
  const Detector detector = small_detector();
  const ImageSet images = draw_world("test", 7, 2);
  const std::vector<Verdict> a = detector.judge(images), b = detector.judge(images.pixels);
  ASSERT_EQ(b.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(a[i].score, b[i].score);
    EXPECT_EQ(a[i].label, b[i].label);
  }
  expect_error([&] { detector.judge(at::zeros({2, 1, 32, 32})); }, {"images", "[2, 1, 32, 32]", "n×3×32×32"});
  expect_error([&] { detector.judge(at::zeros({3, 32, 32})); }, {"images", "[3, 32, 32]"});
}

TEST(Detector, KeepsItsCalibration) {
  TemporaryFolder folder;
  Detector detector = small_detector();
  detector.unsure = UnsureRange{*detector.threshold - 0.5, 0.99};
  detector.temperature = 1.0 / 3;
  detector.save(folder / "d");
  const Detector loaded = Detector::load(folder / "d");
  EXPECT_EQ(loaded.held_out, detector.held_out);
  EXPECT_EQ(loaded.temperature, detector.temperature);
  EXPECT_EQ(loaded.unsure->threshold, detector.unsure->threshold);
  EXPECT_EQ(loaded.unsure->tpr, 0.99);
}

TEST(Detector, RefusesADamagedCalibration) {
  TemporaryFolder folder;
  small_detector().save(folder / "d");
  const TensorFile file = read_safetensors(folder / "d");
  const auto expect = [&](const TensorFile& changed, const std::vector<std::string>& words) {
    write_safetensors(folder / "changed", changed);
    expect_error([&] { Detector::load(folder / "changed"); }, words);
  };
  const auto with = [&](const char* key, const nlohmann::json& value) {
    TensorFile other = file;
    auto about = nlohmann::json::parse(other.metadata["detector"]);
    about[key] = value;
    other.metadata["detector"] = about.dump();
    return other;
  };
  expect(with("temperature", 0), {"changed", "temperature", "is 0, not above 0"});
  expect(with("temperature", "warm"), {"changed", "temperature", "warm"});
  expect(with("unsure", 3), {"changed", "unsure: is 3"});
  expect(with("unsure", {{"threshold", 1e9}, {"tpr", 0.99}}), {"changed", "unsure", "below the detector's"});
  expect(with("unsure", {{"threshold", -1e9}, {"tpr", 2}}), {"changed", "unsure"});
  for (const at::Tensor& bad : {at::tensor({2.0f, 1.0f}), at::zeros({0}), at::zeros({2, 2}),
                                at::zeros({2}, at::kLong), at::full({2}, NAN)}) {
    TensorFile other = file;
    other.tensors["held_out.scores"] = bad;
    expect(other, {"changed", "held_out.scores", "ascending"});
  }
}

TEST(ReadImage, GivesThePixelsOfReadImages) {
  TemporaryFolder folder;
  const std::string bytes = encode_jpeg(random_bytes({70, 90, 3}, 4));
  folder.put("a.jpg", bytes);
  ReadOptions options;
  options.size = 32;
  EXPECT_TRUE(read_image("a.jpg", bytes, 32).equal(read_images(folder / "a.jpg", options).pixels[0]));
  expect_error([&] { read_image("upload", "no image", 32); }, {"upload", "cannot be decoded"});
}

TEST(Predict, KeepsTheOrderAndGivesErrorsTheirRows) {
  TemporaryFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 300; ++i) {  // more than one block
    paths.push_back(folder / fmt::format("{}.png", 999 - i));
    if (i % 50 == 7)
      folder.put(fmt::format("{}.png", 999 - i), "no image");
    else if (i % 50 != 8)  // others do not exist
      folder.put(fmt::format("{}.png", 999 - i), png(i, 33));
  }
  const Detector detector = small_detector();
  const std::vector<Prediction> all = predictions_of(detector, paths);
  EXPECT_EQ(paths_of(all), paths);
  ReadOptions options;
  options.size = 32;
  for (const size_t i : {0, 1, 6, 7, 8, 9, 257, 258, 299}) {
    EXPECT_EQ(all[i].error.empty(), i % 50 != 7 && i % 50 != 8) << i;
    if (all[i].error.empty()) {
      EXPECT_NEAR(all[i].verdict.score, detector.judge(read_images(paths[i], options))[0].score, 1e-4) << i;
    }
  }
  EXPECT_NE(all[7].error.find("cannot be decoded"), std::string::npos);
  EXPECT_EQ(all[7].error.find(paths[7]), std::string::npos) << "the path has its own column";
  EXPECT_NE(all[8].error.find("No such file"), std::string::npos);
}

TEST(Predict, ALargeFileIsNotRead) {
  TemporaryFolder folder;
  folder.put("a.png", png(1));
  folder.put("large.png", png(1));
  std::filesystem::resize_file(folder / "large.png", (uintmax_t{1} << 30) + 1);  // takes no room on the disk
  const std::vector<Prediction> all =
      predictions_of(small_detector(), {folder / "large.png", folder / "a.png"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].error, "is larger than 1 GiB, too much for an image");
  EXPECT_EQ(all[1].error, "");
}

TEST(Predict, TakesJpegsOfEveryColourSpace) {
  TemporaryFolder folder;
  const Detector detector = small_detector();
  for (const int64_t channels : {1, 3, 4}) {
    const std::string bytes = encode_jpeg(random_bytes({80, 70, channels}, 3), true);
    folder.put("a.jpg", bytes);
    const std::vector<Prediction> all = predictions_of(detector, {folder / "a.jpg"});
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].error, "");
    EXPECT_EQ(all[0].verdict.score, detector.judge(read_image("a", bytes, 32).unsqueeze(0))[0].score);
  }
}

TEST(Predict, TakesFoldersWithImagesAnywhere) {
  TemporaryFolder folder;
  folder.put("photos/b.png", png(1));
  folder.put("photos/sub/a.png", png(2));
  folder.put("photos/sub/c.png", "no image");
  EXPECT_EQ(paths_of(predictions_of(small_detector(), {folder / "photos"})),
            (std::vector<std::string>{folder / "photos/b.png", folder / "photos/sub/a.png",
                                      folder / "photos/sub/c.png"}));
}

TEST(Predict, NamesImagesThatAreNotFilesByTheirIndex) {
  TemporaryFolder folder;
  write_npy(folder / "a.npy", random_bytes({2, 32, 32, 3}, 1));
  pack_images("world:test:2", folder / "a.poem", {});
  EXPECT_EQ(paths_of(predictions_of(small_detector(), {folder / "a.npy", folder / "a.poem", "world:test:2"})),
            (std::vector<std::string>{folder / "a.npy:0", folder / "a.npy:1", folder / "a.poem:0",
                                      folder / "a.poem:1", "world:test:2:0", "world:test:2:1"}));
}

TEST(Predict, ASourceThatDoesNotFitIsOneRow) {
  TemporaryFolder folder;
  write_npy(folder / "grey.npy", random_bytes({2, 32, 32}, 1));
  const std::vector<Prediction> all = predictions_of(small_detector(), {folder / "grey.npy", "world:test:1"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(all[0].error.find("1 channel"), std::string::npos) << all[0].error;
  EXPECT_TRUE(all[1].error.empty());
}

TEST(Predict, EveryFileThatDoesNotFitIsARow) {
  TemporaryFolder folder;
  const std::vector<std::string> files = {folder / "a.png", folder / "b.png", folder / "c.png"};
  for (const char* name : {"a.png", "b.png", "c.png"}) folder.put(name, png(1));
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.classes = 8;
  spec.channels = 1;
  spec.mean = spec.std = {100};
  const Detector grey{make_network(spec, 5), make_score("energy"), 1.25, small_detector().class_names};
  const std::vector<Prediction> all = predictions_of(grey, files);
  EXPECT_EQ(paths_of(all), files);
  for (const Prediction& one : all) EXPECT_EQ(one.error, "has 3 channels, the network takes 1");
}

TEST(Predict, ReadsListsFromAStream) {
  TemporaryFolder folder;
  folder.put("a.png", png(1));
  folder.put("two\nlines.png", png(2));
  const Detector detector = small_detector();
  const std::string a = folder / "a.png", b = folder / "two\nlines.png";
  EXPECT_EQ(paths_of(predictions_of_stream(detector, a + "\r\n\nworld:test:1\n" + a)),
            (std::vector<std::string>{a, "world:test:1:0", a}));
  EXPECT_EQ(paths_of(predictions_of_stream(detector, a + '\0' + b + '\0')), (std::vector<std::string>{a, b}));
  expect_error([&] { predictions_of_stream(detector, ""); }, {"standard input", "no path"});
  expect_error([&] { predictions_of_stream(detector, png(1)); }, {"standard input", "neither a list"});
  const std::vector<Prediction> bad = predictions_of_stream(detector, "a#b=1\nmissing.png\nmissing/\n");
  ASSERT_EQ(bad.size(), 3u);
  EXPECT_NE(bad[0].error.find("'#b=1' is not known"), std::string::npos) << bad[0].error;
  EXPECT_NE(bad[1].error.find("No such file"), std::string::npos) << bad[1].error;
  EXPECT_FALSE(bad[2].error.empty());
}

TEST(PredictionsOutput, EscapesPaths) {
  const Detector detector = small_detector();
  const Prediction bad{"a,\"b\"\nc\xff", {}, "no, it is empty"};
  EXPECT_EQ(csv_line(detector, bad), "\"a,\"\"b\"\"\nc\xff\",,,,,,,\"no, it is empty\"\n");
  const auto json = nlohmann::json::parse(json_line(detector, bad));
  EXPECT_EQ(json["path"], "a,\"b\"\nc\xEF\xBF\xBD");
  EXPECT_EQ(json["error"], "no, it is empty");
  EXPECT_EQ(json.size(), 2u);
  EXPECT_NE(to_table(detector, {bad}, {}).find("a,\"b\"?c"), std::string::npos);
}

TEST(PredictionsOutput, AllFormsSayTheSame) {
  const Detector detector = small_detector();
  const Prediction good{"a.png", {2, 0.5f, true, false, 0.75, 0.25}, ""}, bad{"b.png", {}, "why"};
  EXPECT_EQ(csv_line(detector, good),
            fmt::format("a.png,{0},{0},0.75,0.5,{1},0.25,\n", detector.class_names[2], *detector.threshold));
  const auto json = nlohmann::json::parse(json_line(detector, good));
  EXPECT_EQ(json["verdict"], detector.class_names[2]);
  EXPECT_EQ(json["p_value"], 0.25);
  EXPECT_EQ(json["threshold"], *detector.threshold);
  const std::string npy = to_npy(detector, {good, bad});
  uint16_t length = 0;
  std::memcpy(&length, npy.data() + 8, sizeof length);
  const std::string header = npy.substr(10, length);
  EXPECT_EQ((10 + length) % 64, 0);
  EXPECT_NE(header.find("[('path', '|S5'), ('verdict', '|S"), std::string::npos) << header;
  EXPECT_NE(header.find("('error', '|S3'), ], 'fortran_order': False, 'shape': (2,), }"), std::string::npos)
      << header;
  const size_t word = detector.class_names[2].size(), record = 5 + 2 * word + 4 * 8 + 3;
  ASSERT_EQ(npy.size(), 10 + length + 2 * record);
  double probability = 0;
  std::memcpy(&probability, npy.data() + 10 + length + 5 + 2 * word, sizeof probability);
  EXPECT_EQ(probability, 0.75);
  EXPECT_EQ(npy.substr(npy.size() - 3), "why");
}

}  // namespace
}  // namespace poem
