// Tars that are decoded on demand.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "encode_images.h"
#include "expect_error.h"
#include "log.h"
#include "poem/crops.h"
#include "poem/read.h"
#include "readers/image_files.h"
#include "readers/image_list.h"
#include "readers/tar_images.h"
#include "temporary_folder.h"

#ifdef POEM_HAS_ARCHIVE
#include <archive.h>
#include <archive_entry.h>

namespace poem {
namespace {

std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files, bool gnu = false) {
  std::string bytes(4 << 20, '\0');
  size_t used = 0;
  archive* tar = archive_write_new();
  gnu ? archive_write_set_format_gnutar(tar) : archive_write_set_format_pax(tar);
  archive_write_open_memory(tar, bytes.data(), bytes.size(), &used);
  for (const auto& [name, content] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(tar, entry);
    archive_write_data(tar, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_close(tar);
  archive_write_free(tar);
  return bytes.substr(0, used);
}

class Tars : public ::testing::Test {
 protected:
  // Image i of n as a PNG, in folders with long names, with the class i % 3.
  std::vector<std::pair<std::string, std::string>> samples(int64_t first, int64_t count) {
    std::vector<std::pair<std::string, std::string>> files;
    for (int64_t i = first; i < first + count; ++i) {
      const std::string key = (i % 2 == 0 ? "even/" : "odd/") + std::string(static_cast<size_t>(i) * 9, 'x') +
                              "/" + std::to_string(i);
      files.emplace_back(key + ".cls", std::to_string(i % 3));
      files.emplace_back(key + ".png", encode_png(random_bytes({8, 8, 3}, static_cast<uint64_t>(i))));
    }
    return files;
  }
  TemporaryFolder folder;
};

TEST_F(Tars, GiveTheImagesThatReadingAllGives) {
  folder.put("a-0.tar", tar_of(samples(0, 30)));
  folder.put("a-1.tar", tar_of(samples(30, 1), /*gnu=*/true));
  folder.put("a-2.tar", tar_of(samples(31, 19), /*gnu=*/true));
  for (const int64_t size : {0, 4, 10}) {
    ReadOptions options;
    options.size = size;
    options.repeat_small = size > 8;
    const ImageSet all = read_images(folder / "a-{0..2}.tar", options);
    ASSERT_EQ(all.size(), 50);
    const auto lazy = open_tars(folder / "a-{0..2}.tar", options);
    ASSERT_NE(lazy, nullptr);
    const ImageSet& images = lazy->images();
    EXPECT_EQ(images.size(), 50);
    EXPECT_EQ(images.class_names, all.class_names);
    EXPECT_TRUE(all.labels.equal(at::arange(50).remainder(3)));
    std::vector<Crop> crops;
    for (int64_t i = 49; i >= 0; i -= 3) crops.push_back({i, 0});
    lazy->make(crops.data(), static_cast<int64_t>(crops.size()));
    EXPECT_EQ(lazy->made(), 17);
    for (const Crop& crop : crops) {
      EXPECT_TRUE(images.pixels[crop.image].equal(all.pixels[crop.image])) << crop.image;
      EXPECT_EQ(images.labels[crop.image].item<int64_t>(), all.labels[crop.image].item<int64_t>());
    }
    for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(images.title(i), all.title(i));
  }
}

// The labels of a tar with these classes, read at once and on demand; -1 for none. An empty class: no file.
std::vector<int64_t> labels_of(const TemporaryFolder& folder, const std::vector<std::string>& classes,
                               bool image_first, std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> files;
  for (size_t i = 0; i < classes.size(); ++i) {
    const std::string key = "some.folder/" + std::to_string(i);
    if (!classes[i].empty()) files.emplace_back(key + ".cls", classes[i]);
    files.emplace_back(key + ".png", encode_png(random_bytes({8, 8, 3}, i)));
    if (image_first && !classes[i].empty()) std::swap(files[files.size() - 1], files[files.size() - 2]);
  }
  files.emplace_back("some.folder/no-image.cls", "99");
  folder.put("a.tar", tar_of(files));
  const ImageSet all = read_images(folder / "a.tar", {});
  const auto lazy = open_tars(folder / "a.tar", {});
  names = all.class_names;
  EXPECT_EQ(lazy->images().class_names, names);
  EXPECT_EQ(lazy->images().labels.defined(), all.labels.defined());
  std::vector<int64_t> labels(classes.size(), -1);
  for (size_t i = 0; all.labels.defined() && i < classes.size(); ++i) {
    labels[i] = all.labels[static_cast<int64_t>(i)].item<int64_t>();
    EXPECT_EQ(lazy->images().labels[static_cast<int64_t>(i)].item<int64_t>(), labels[i]);
  }
  return labels;
}

TEST_F(Tars, ClassesOfSamplesAreLabels) {
  using Names = std::vector<std::string>;
  using List = std::vector<int64_t>;
  Names names;
  for (const bool image_first : {false, true}) {
    EXPECT_EQ(labels_of(folder, {"10", " 9\n", "010", "2"}, image_first, names), List({2, 1, 2, 0}));
    EXPECT_EQ(names, Names({"2", "9", "10"})) << "sorted as numbers; 99 has no image";
    EXPECT_EQ(labels_of(folder, {"dog", "cat", "10", "dog"}, image_first, names), List({2, 1, 0, 2}));
    EXPECT_EQ(names, Names({"10", "cat", "dog"}));
    // More than are decoded at once.
    Names many(600);
    for (size_t i = 0; i < many.size(); ++i) many[i] = std::to_string(i % 7);
    const List labels = labels_of(folder, many, image_first, names);
    for (size_t i = 0; i < many.size(); ++i) ASSERT_EQ(labels[i], i % 7) << i;
  }
  EXPECT_EQ(labels_of(folder, {"1", "1"}, true, names), List({-1, -1})) << "one class is none";
}

TEST_F(Tars, ClassesThatAreMissingOrBadAreNamed) {
  std::vector<std::string> names;
  {
    const Log log;
    EXPECT_EQ(labels_of(folder, {"1", "", "2"}, false, names), std::vector<int64_t>(3, -1));
    EXPECT_NE(log.text().find("without a class, such as some.folder/1.png"), std::string::npos) << log.text();
  }
  ReadOptions options;
  options.every_class = true;
  expect_error([&] { read_images(folder / "a.tar", options); },
               {"a.tar", "some.folder/1.png", "write a .cls file for every image"});
  for (const char* text : {" \n", "cat\ndog"})
    expect_error([&] { labels_of(folder, {"1", text}, false, names); }, {"a.tar:some.folder/1.cls", "class"});
}

// Otherwise the images of one would get the class of the other.
TEST_F(Tars, SamplesOfOneNameMustHaveOneClass) {
  const std::string image = encode_png(random_bytes({8, 8, 3}, 1));
  const auto read = [&](const std::string& again) {
    folder.put("a.tar", tar_of({{"a.png", image},
                                {"a.cls", "1"},
                                {"a.png", image},
                                {"a.cls", again},
                                {"b.png", image},
                                {"b.cls", "3"}}));
    return read_images(folder / "a.tar", {}).labels;
  };
  EXPECT_TRUE(read("01").equal(at::tensor({0, 0, 1}, at::kLong)));
  expect_error([&] { read("2"); }, {"a.tar:a.cls", "says class 2", "has class 1 already"});
}

// Shards may count their samples from one again.
TEST_F(Tars, ASampleEndsWithItsTar) {
  for (const bool image_first : {false, true}) {
    for (const std::string number : {"1", "2"}) {
      std::vector<std::pair<std::string, std::string>> files = {
          {"a.png", encode_png(random_bytes({8, 8, 3}, 1))}, {"a.cls", number}};
      if (!image_first) std::swap(files[0], files[1]);
      folder.put("shard-" + number + ".tar", tar_of(files));
    }
    const std::string shards = folder / "shard-{1..2}.tar";
    const at::Tensor expected = at::tensor({0, 1}, at::kLong);
    EXPECT_NO_THROW(EXPECT_TRUE(read_images(shards, {}).labels.equal(expected)));
    EXPECT_NO_THROW(EXPECT_TRUE(open_tars(shards, {})->images().labels.equal(expected)));
  }
}

// A class at the end of one tar is not that of an image at the beginning of the next.
TEST_F(Tars, AClassIsOfItsTarOnly) {
  const std::string image = encode_png(random_bytes({8, 8, 3}, 1));
  folder.put("shard-1.tar", tar_of({{"b.png", image}, {"b.cls", "1"}, {"c.png", image}, {"c.cls", "2"}}));
  folder.put("shard-2.tar", tar_of({{"c.png", image}}));
  ReadOptions options;
  options.every_class = true;
  const std::string shards = folder / "shard-{1..2}.tar";
  expect_error([&] { read_images(shards, options); }, {"images without a class", "c.png"});
  expect_error([&] { open_tars(shards, options); }, {"images without a class", "c.png"});
}

TEST_F(Tars, OnlyWholePlainTarsAreReadOnDemand) {
  folder.put("a.tar", tar_of(samples(0, 3)));
  folder.put("images/1.png", encode_png(random_bytes({8, 8, 3}, 1)));
  folder.put("tars/a.tar", tar_of(samples(0, 3)));
  EXPECT_NE(open_tars(folder / "a.tar", {}), nullptr);
  EXPECT_NE(open_tars(folder / "tars", {}), nullptr);
  EXPECT_EQ(open_tars((folder / "a.tar") + "#count=2", {}), nullptr);
  EXPECT_EQ(open_tars(folder / "a.tar", {0, /*skip_bad=*/true}), nullptr);
  EXPECT_EQ(open_tars(folder / "images", {}), nullptr);
  EXPECT_EQ(open_tars("world:train:4", {}), nullptr);
}

TEST_F(Tars, NameWhatIsWrong) {
  auto files = samples(0, 10);
  files[9].second = files[9].second.substr(0, 100);  // image 4
  folder.put("bad.tar", tar_of(files));
  const auto lazy = open_tars(folder / "bad.tar", {});
  const Crop good{3, 0}, bad{4, 0};
  lazy->make(&good, 1);
  expect_error([&] { lazy->make(&bad, 1); }, {"bad.tar:even/", "4.png", "data.skip_bad: true"});
  files[9].second = encode_png(random_bytes({8, 9, 3}, 1));
  folder.put("wide.tar", tar_of(files));
  const auto wide = open_tars(folder / "wide.tar", {});
  expect_error([&] { wide->make(&bad, 1); }, {"wide.tar:even/", "8×9 pixels", "8×8", "outliers.fit: resize"});
  const std::string tar = tar_of(samples(0, 10));
  for (const size_t size : {tar.size() / 2, tar.size() / 2 + 300, tar.size() / 2 + 700, size_t{600}}) {
    folder.put("cut.tar", tar.substr(0, size));
    expect_error([&] { open_tars(folder / "cut.tar", {}); }, {"cut.tar"});
  }
}

// Forgotten images are made again, and a call that needs more than may be kept gets all it needs.
TEST_F(Tars, KeepABoundedNumberOfImages) {
  folder.put("a.tar", tar_of(samples(0, 40)));
  const auto lazy = open_tars(folder / "a.tar", {});
  const ImageSet all = read_images(folder / "a.tar");
  lazy->keep_at_most(10 * 192);
  EXPECT_EQ(lazy->most_bytes(), 1920u);
  for (const int64_t step : {4, 1, 25, 7}) {
    for (int64_t first = 0; first < 40; first += step) {
      std::vector<Crop> crops;
      for (int64_t i = first; i < std::min<int64_t>(40, first + step); ++i) crops.push_back({i, 0});
      lazy->make(crops.data(), static_cast<int64_t>(crops.size()));
      EXPECT_LE(lazy->made(), std::max<int64_t>(10, step));
      for (const Crop& crop : crops)
        ASSERT_TRUE(lazy->images().pixels[crop.image].equal(all.pixels[crop.image])) << crop.image;
    }
  }
}

// A stream of tars one after the other; one that ends early, wherever, is an Error.
TEST_F(Tars, StreamsEndWhereTheyShould) {
  const std::string tar = tar_of(samples(0, 4)), both = tar + tar_of(samples(4, 4));
  const auto count = [](const std::string& bytes) {
    int64_t images = 0;
    std::istringstream stream(bytes.substr(512));
    visit_tar(stream, bytes.substr(0, 512), {}, [&](const at::Tensor& pixels) { images += pixels.size(0); });
    return images;
  };
  EXPECT_EQ(count(tar), 4);
  EXPECT_EQ(count(both), 8);
  for (size_t size = 512; size + 1024 < tar.find(std::string(1024, '\0')); size += 512)
    expect_error([&] { count(tar.substr(0, size)); }, {"standard input"});
}

// Names with several dots are samples of WebDataset, and images need no class to be predicted.
TEST_F(Tars, ImagesOfOneSampleAreNotHeldUntilTheEnd) {
  std::vector<std::pair<std::string, std::string>> files;
  for (uint64_t i = 0; i < 600; ++i)
    files.emplace_back("frame." + std::to_string(i) + ".png", encode_png(random_bytes({8, 8, 3}, i)));
  const std::string tar = tar_of(files);
  std::istringstream stream(tar.substr(512));
  int64_t images = 0, first = 0;
  ReadOptions options;
  options.on_image = [&](const std::string&, const Error* problem) { EXPECT_EQ(problem, nullptr); };
  visit_tar(stream, tar.substr(0, 512), options, [&](const at::Tensor& pixels) {
    if (images == 0) first = stream.tellg();
    images += pixels.size(0);
  });
  EXPECT_EQ(images, 600);
  EXPECT_GT(first, 0) << "the stream had not ended";
  EXPECT_LT(first, static_cast<int64_t>(tar.size()) * 2 / 3);
}

TEST_F(Tars, FilesOfOneSampleAreNotHeldUntilTheEnd) {
  folder.put("a.png", encode_png(random_bytes({8, 8, 3}, 1)));
  int64_t images = 0;
  ImageFiles files(folder.path(), {}, [&](const at::Tensor& pixels) { images += pixels.size(0); });
  for (int i = 0; i < 300; ++i) files.add(folder / "a.png", "frame." + std::to_string(i) + ".png");
  EXPECT_GT(images, 0);
  files.finish();
  EXPECT_EQ(images, 300);
}

TEST_F(Tars, ASampleHasLimits) {
  ReadOptions options;
  int bad = 0;
  options.skip_bad = true;
  options.on_bad = [&](const Error&) { ++bad; };
  ImageFiles files("a.tar", options, [](const at::Tensor&) {});
  const auto add = [&](int i) {
    const std::string name = "frame." + std::to_string(i) + ".png";
    files.add("a.tar:" + name, name, std::string(size_t{1} << 26, '\0'));
  };
  for (int i = 0; i < 5; ++i) add(i);
  EXPECT_EQ(bad, 0) << "its class may follow";
  add(5);
  EXPECT_EQ(bad, 5);
  expect_error([&] { files.add_class("a.tar:frame.cls", "frame.cls", "cat"); },
               {"a.tar:frame.cls", "256 MiB of images of its sample", "write it before them"});
  files.add_class("a.tar:other.cls", "other.cls", "cat");
}

TEST_F(Tars, PredictionsNeedNoClasses) {
  std::string seen;
  ReadOptions options;
  options.on_image = [&](const std::string& path, const Error* problem) {
    seen += path + (problem == nullptr ? " " : "! ");
  };
  const std::string image = encode_png(random_bytes({8, 8, 3}, 1));
  const std::string tar = tar_of({{"a.png", image}, {"llncs.cls", "a class\nof LaTeX"}, {"b.png", image}});
  std::istringstream stream(tar.substr(512));
  visit_tar(stream, tar.substr(0, 512), options, [](const at::Tensor&) {});
  EXPECT_EQ(seen, "a.png b.png ");
}

}  // namespace
}  // namespace poem
#endif
