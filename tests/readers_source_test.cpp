#include "readers/source.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/npy.h"
#include "encode_images.h"
#include "expect_error.h"
#include "poem/crops.h"
#include "poem/read.h"
#include "readers/packed.h"
#include "temporary_folder.h"

namespace poem {
namespace {

TEST(Source, IsAPlaceAndWhatOfItIsMeant) {
  const Source plain = parse_source("photos/a", "");
  EXPECT_EQ(plain.place, "photos/a");
  EXPECT_TRUE(plain.whole());
  const Source part = parse_source("b.mat#per_class=7#exclude=list.txt#seed=3#count=20", "/data");
  EXPECT_EQ(part.place, "/data/b.mat");
  EXPECT_EQ(part.exclude, "/data/list.txt");
  EXPECT_EQ(part.per_class, 7);
  EXPECT_EQ(part.count, 20);
  EXPECT_EQ(part.seed, 3u);
  EXPECT_EQ(parse_source("/b.mat", "/data").place, "/b.mat");  // absolute paths stay
  EXPECT_EQ(parse_source("world:test:9#count=2", "/data").place, "world:test:9");
}

TEST(Source, APathMayHoldTheMark) {
  TemporaryFolder folder;
  folder.put("a#count=1/x.txt", "");
  EXPECT_EQ(parse_source("a#count=1", folder.path()).place, folder / "a#count=1");
  EXPECT_TRUE(parse_source("a#count=1", folder.path()).whole());
  EXPECT_EQ(parse_source("b#count=1", folder.path()).place, folder / "b");
}

TEST(Source, RefusesWhatItDoesNotKnow) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> bad = {
      {"a#cuont=5", {"cuont", "nearest is 'count'", "per_class"}},
      {"a#", {"'#' is not known"}},
      {"a#count", {"count is ''", "at least 1"}},
      {"a#count=0", {"count is '0'"}},
      {"a#count=-3", {"count is '-3'"}},
      {"a#count=3.5", {"count is '3.5'"}},
      {"a#count=99999999999999999999", {"99999999999999999999"}},
      {"a#per_class=x", {"per_class is 'x'"}},
      {"a#count=1#seed=-1", {"seed is '-1'"}},
      {"a#count=1#count=2", {"'#count' is given twice"}},
      {"a#exclude=", {"exclude names no file"}},
      {"a#seed=1", {"has no effect", "#count=N"}}};
  for (const auto& [text, words] : bad) {
    expect_error([text = text] { parse_source(text, ""); }, words);
    expect_error([text = text] { read_images(text); }, {text});
  }
}

// Twelve grey images of one pixel, the i-th of value i; labels 0 0 0 0 0 0 1 1 1 1 2 2.
class Part : public ::testing::Test {
 protected:
  Part() {
    write_npy(folder / "a.npy", at::arange(12, at::kByte).view({12, 1, 1, 1}));
    write_npy(folder / "a_labels.npy", at::tensor({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2}, at::kLong));
    pack_images(folder / "a.npy", folder / "a.poem", {});
  }
  ImageSet read(const std::string& source) { return read_images(source, {0, false, folder.path()}); }
  // The values of the images as the set gives them, through its only door for batches.
  static std::vector<int64_t> values(const ImageSet& set) {
    std::vector<int64_t> result;
    for (int64_t i = 0; i < set.size(); ++i) {
      const Crop crop{i, 0};
      result.push_back(cut(set, &crop, 1, plain(1)).item<uint8_t>());
    }
    return result;
  }
  TemporaryFolder folder;
};

TEST_F(Part, CountTakesDistinctImagesInTheirOrder) {
  for (const std::string file : {"a.npy", "a.poem"}) {
    std::set<std::vector<int64_t>> seen;
    for (int seed = 0; seed < 20; ++seed) {
      const std::string source = file + "#count=5#seed=" + std::to_string(seed);
      const ImageSet set = read(source);
      const std::vector<int64_t> chosen = values(set);
      ASSERT_EQ(chosen.size(), 5u);
      EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
      EXPECT_EQ(std::set<int64_t>(chosen.begin(), chosen.end()).size(), 5u);
      for (int64_t i = 0; i < 5; ++i)
        EXPECT_EQ(set.labels[i].item<int64_t>(), chosen[i] < 6 ? 0 : chosen[i] < 10 ? 1 : 2);
      EXPECT_EQ(values(read(source)), chosen);
      EXPECT_EQ(set.name, source);
      seen.insert(chosen);
    }
    EXPECT_GT(seen.size(), 15u);
  }
  EXPECT_EQ(values(read("a.npy#count=5")), values(read("a.npy#count=5#seed=0")));
  EXPECT_EQ(values(read("a.npy#count=12")).size(), 12u);
  expect_error([&] { read("a.npy#count=13"); }, {"a.npy#count=13", "contains 12 images", "asks for 13"});
}

TEST_F(Part, EveryImageIsTakenEquallyOften) {
  std::vector<int> times(12);
  const int trials = 3000;
  for (int seed = 0; seed < trials; ++seed) {
    ImageSet set{"", at::arange(12, at::kByte).view({12, 1, 1, 1}), {}, {}};
    Source source;
    source.count = 3;
    source.seed = seed;
    take_part(set, source);
    for (int64_t i = 0; i < 3; ++i) ++times[set.pixels.view({-1})[i].item<uint8_t>()];
  }
  for (const int n : times) EXPECT_NEAR(n, trials / 4, 5 * std::sqrt(trials * 3 / 16.0));
}

TEST_F(Part, PerClassTakesAtMostSoManyOfEach) {
  const std::vector<int64_t> chosen = values(read("a.npy#per_class=3"));
  const auto within = [&](int64_t low, int64_t high) {
    return std::count_if(chosen.begin(), chosen.end(), [&](int64_t v) { return v >= low && v < high; });
  };
  EXPECT_EQ(within(0, 6), 3);
  EXPECT_EQ(within(6, 10), 3);
  EXPECT_EQ(within(10, 12), 2);
  EXPECT_EQ(read("a.npy#per_class=3").class_names.size(), 3u);
  EXPECT_EQ(values(read("a.npy#per_class=3#count=8")).size(), 8u);
  expect_error([&] { read("a.npy#per_class=3#count=9"); }, {"contains 8 images", "asks for 9"});
  write_npy(folder / "b.npy", at::zeros({2, 1, 1, 1}, at::kByte));
  expect_error([&] { read("b.npy#per_class=3"); }, {"b.npy", "no classes"});
}

TEST_F(Part, ExcludedImagesAreNeverThere) {
  folder.put("list.txt", "1\n3\r\n3\n\n12\n");  // counted from 1
  write_npy(folder / "list.npy", at::tensor({11, 0, 2}, at::kInt));
  for (const std::string file : {"a.npy", "a.poem"}) {
    for (const std::string list : {"list.txt", "list.npy"}) {
      const ImageSet set = read(file + "#exclude=" + list);
      EXPECT_EQ(values(set), (std::vector<int64_t>{1, 3, 4, 5, 6, 7, 8, 9, 10}));
      EXPECT_TRUE(set.labels.equal(at::tensor({0, 0, 0, 0, 1, 1, 1, 1, 2}, at::kLong)));
      for (const int64_t value : values(read(file + "#exclude=" + list + "#count=9"))) EXPECT_NE(value, 0);
      pack_images(file + "#exclude=" + list, folder / "packed.poem", {0, false, folder.path()});
      EXPECT_EQ(values(read("packed.poem")), values(set));
      EXPECT_TRUE(read("packed.poem").labels.equal(set.labels));
    }
  }
  // Resizing passes the left out by, too.
  ReadOptions options{2, false, folder.path()};
  EXPECT_EQ(read_images("a.poem#exclude=list.txt", options).pixels.sizes(), at::IntArrayRef({9, 1, 2, 2}));
}

TEST_F(Part, RefusesBadListsOfIndices) {
  const auto reading = [&] { read("a.npy#exclude=list.txt"); };
  expect_error(reading, {"list.txt", "No such file"});
  folder.put("list.txt", "0\n");
  expect_error(reading, {"list.txt", "names image 0", "1 to 12", "counts from 1"});
  folder.put("list.txt", "13\n");
  expect_error(reading, {"list.txt", "names image 13", "1 to 12"});
  for (const char* text : {"1\ntwo\n", "1.5", "1,2", "99999999999999999999"}) {
    folder.put("list.txt", text);
    expect_error(reading, {"list.txt", "not an image number"});
  }
  folder.put("list.txt", "1 2 3 4 5 6 7 8 9 10 11 12");
  expect_error(reading, {"a.npy", "leaves no image"});
  folder.put("list.txt", "");
  EXPECT_EQ(read("a.npy#exclude=list.txt").size(), 12);
  const auto reading_array = [&] { read("a.npy#exclude=list.npy"); };
  write_npy(folder / "list.npy", at::tensor({12}, at::kLong));
  expect_error(reading_array, {"list.npy", "names image 12", "0 to 11"});
  write_npy(folder / "list.npy", at::tensor({-1}, at::kLong));
  expect_error(reading_array, {"list.npy", "names image -1"});
  write_npy(folder / "list.npy", at::tensor({1.0f}));
  expect_error(reading_array, {"list.npy", "float32", "integers"});
  folder.put("list.npy", "text");
  expect_error(reading_array, {"list.npy"});
  expect_error([&] { read("a.npy#exclude=."); }, {"is a folder"});
}

TEST(ImageSetRow, IsTheNthThatIsNotLeftOut) {
  const std::vector<std::vector<int64_t>> cases = {
      {}, {0}, {9}, {0, 1, 2}, {7, 8, 9}, {2, 3, 7}, {1, 3, 5, 7, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8}};
  for (const auto& left_out : cases) {
    ImageSet set{"", at::zeros({10, 1, 1, 1}, at::kByte), {}, {}, left_out};
    int64_t image = 0;
    for (int64_t row = 0; row < 10; ++row) {
      if (std::count(left_out.begin(), left_out.end(), row) > 0) continue;
      EXPECT_EQ(set.row(image++), row);
    }
    EXPECT_EQ(image, set.size());
  }
}

TEST(CheckSource, FindsWhatReadingWouldWithoutReading) {
  TemporaryFolder folder;
  const ReadOptions options{0, false, folder.path()};
  folder.put("a.npy", "no array at all");  // not looked into
  folder.put("list.txt", "x");
  check_source("a.npy", options);
  check_source("a.npy#exclude=list.txt", options);
  check_source("world:train:100000000", options);  // not drawn
  check_source("world2d:ood", options);
  for (const auto& [source, word] : std::vector<std::pair<std::string, std::string>>{
           {"b.npy", "no such file or folder (check the path, and data.folder"},
           {"/b.npy", "no such file or folder (check the path)"},
           {"a.npy#exclude=missing.txt", "missing.txt: there is no such file"},
           {"a.npy#cont=3", "nearest is 'count'"},
           {"list.txt", "unknown format"},
           {"world::300", "world::300: names no set (write world:SET"},
           {"world2d:", "world2d:: names no set (write world2d:SET"},
           {"world:trian", "no such set"},
           {"world:train:0", "at least 1"},
           {"world2d:digits", "no such set"}})
    expect_error([&, source = source] { check_source(source, options); }, {word});
}

TEST(IsMapped, TellsWhatStaysInItsFile) {
  TemporaryFolder folder;
  folder.put("a.npy", "");
  folder.put("a.poem", "");
  folder.put("tiny_images.bin", "");
  const ReadOptions options{0, false, folder.path()};
  EXPECT_TRUE(is_mapped("a.poem", options));
  EXPECT_TRUE(is_mapped("tiny_images.bin#exclude=list.txt", options));
  EXPECT_FALSE(is_mapped("a.npy", options));
  EXPECT_FALSE(is_mapped("world:train", options));
}

}  // namespace
}  // namespace poem
