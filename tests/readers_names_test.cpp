// The names of images, and the numbers of those without names, stay with their images, whatever is left out,
// taken or packed.
#include "poem/images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/file.h"
#include "core/npy.h"
#include "encode_images.h"
#include "expect_error.h"
#include "poem/random.h"
#include "poem/read.h"
#include "poem/reader.h"
#include "readers/packed.h"
#include "readers/survey.h"
#include "temporary_folder.h"
#include "write_mat.h"

namespace poem {
namespace {

std::vector<std::string> listed_names(const ImageNames& names) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < names.size(); ++i) all.emplace_back(names[i]);
  return all;
}

TEST(ImageNames, KeepsEveryNameAsItIs) {
  ImageNames names;
  EXPECT_TRUE(names.empty());
  EXPECT_TRUE(names.select({0, 1}).empty());
  const std::vector<std::string> given = {"a", "", "ä/b c.png", "line\nfeed", "\xff"};
  for (const std::string& name : given) names.add(name);
  EXPECT_EQ(names.size(), 5);
  EXPECT_EQ(listed_names(names), given);
  EXPECT_EQ(listed_names(names.select({4, 1, 2, 2})),
            (std::vector<std::string>{"\xff", "", "ä/b c.png", "ä/b c.png"}));
}

// Against a list of all numbers.
TEST(ImageNames, WithoutNamesAreTheNumbersOfThePart) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Stream stream(seed, "parts");
    ImageNames names;
    std::vector<int64_t> numbers(40);
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    for (int step = 0; step < 4; ++step) {
      const auto count = static_cast<int64_t>(numbers.size());
      const std::vector<int64_t> some =
          sample(count, 1 + static_cast<int64_t>(stream.below(count / 2)), stream);
      std::vector<int64_t> part;
      if (stream.uniform() < 0.5) {
        names = names.select(some);
        for (const int64_t i : some) part.push_back(numbers[static_cast<size_t>(i)]);
      } else {
        names.leave_out(some);
        for (int64_t i = 0; i < count; ++i)
          if (!std::binary_search(some.begin(), some.end(), i))
            part.push_back(numbers[static_cast<size_t>(i)]);
      }
      numbers = part;
      EXPECT_TRUE(names.empty());
      for (size_t i = 0; i < numbers.size(); ++i)
        ASSERT_EQ(names.title(static_cast<int64_t>(i)), std::to_string(numbers[i])) << seed << " " << step;
      if (numbers.size() < 4) break;
    }
  }
}

TEST(ImageNames, LeaveOutNames) {
  ImageNames names;
  for (const char* name : {"a", "b", "c", "d"}) names.add(name);
  names.leave_out({0, 2});
  EXPECT_EQ(listed_names(names), (std::vector<std::string>{"b", "d"}));
}

TEST(ImageSetTitle, IsTheNameOrTheNumber) {
  ImageSet set{"", at::zeros({2, 1, 1, 1}, at::kByte), {}, {}};
  EXPECT_EQ(set.title(1), "1");
  set.names.add("a.png");
  set.names.add("b.png");
  EXPECT_EQ(set.title(1), "b.png");
}

// Images of one pixel that is the number in their names, so that a shift shows: CLASS/NUMBER.png.
class Named : public ::testing::Test {
 protected:
  Named() {
    for (int i = 0; i < 20; ++i) put(i, encode_png(at::full({1, 1, 3}, i, at::kByte)));
  }
  void put(int number, const std::string& content) {
    folder.put("set/" + std::string(number < 12 ? "cat/" : "dog/old/") + name(number), content);
  }
  static std::string name(int number) { return (number < 10 ? "0" : "") + std::to_string(number) + ".png"; }
  // Of a set that should have `count` images.
  static void expect_together(const ImageSet& set, int64_t count) {
    ASSERT_EQ(set.size(), count) << set.name;
    ASSERT_EQ(set.names.size(), count) << set.name;
    for (int64_t i = 0; i < count; ++i) {
      const int number = set.pixels[set.row(i)].flatten()[0].item<uint8_t>();
      const std::string folder = number < 12 ? "cat/" : "dog/old/";
      EXPECT_EQ(set.title(i), folder + name(number)) << set.name;
      EXPECT_EQ(set.labels[i].item<int64_t>(), number < 12 ? 0 : 1);
    }
  }
  ImageSet read(const std::string& source) { return read_images(source, {0, true, folder.path()}); }
  TemporaryFolder folder;
};

TEST_F(Named, StayWithTheirImagesInAnyPart) {
  folder.put("list.txt", "1 5 20");
  pack_images(folder / "set", folder / "set.poem", {});
  for (const std::string source : {"set", "set/", "set.poem"}) {
    expect_together(read(source), 20);
    expect_together(read(source + "#exclude=list.txt"), 17);
    expect_together(read(source + "#exclude=list.txt#per_class=4"), 8);
    expect_together(read(source + "#count=7#seed=3"), 7);
    pack_images(source + "#exclude=list.txt", folder / "part.poem", {0, false, folder.path()});
    expect_together(read("part.poem"), 17);
  }
  const ImageSet resized = read_images(folder / "set.poem#exclude=" + (folder / "list.txt"), {2});
  expect_together(resized, 17);
  expect_together(subset(read("set.poem#exclude=list.txt"), {16, 0, 3}), 3);
}

TEST_F(Named, ABadImageShiftsNothing) {
  put(0, "no image");
  put(7, "");
  put(13, encode_png(random_bytes({1, 1, 3}, 1)).substr(0, 40));
  const ImageSet set = read("set");
  expect_together(set, 17);
  EXPECT_EQ(set.title(0), "cat/01.png");
  pack_images(folder / "set", folder / "set.poem", {0, true});
  expect_together(read("set.poem"), 17);
}

TEST_F(Named, ArraysAndWorldsHaveNone) { EXPECT_TRUE(read_images("world:train:3").names.empty()); }

// Sources of different images without names.
class Numbered : public ::testing::Test {
 protected:
  Numbered() {
    const at::Tensor images = random_bytes({30, 3, 32, 32}, 1), labels = at::arange(30) % 4;
    write_npy(folder / "a.npy", images);
    write_npy(folder / "a_labels.npy", labels);
    write_npz(folder / "a.npz", {{"x", images}, {"y", labels}});
    pack_images(folder / "a.npy", folder / "a.poem", {});
    pack_images(folder / "a.npz", folder / "b.poem", {});
    // Shards of 4 images. The third is not full, so rows that mean nothing follow it.
    pack_images(folder / "a.npy#count=9", folder / "shards", {}, {4 * 3072, false});
    pack_images(folder / "a.npz", folder / "shards", {}, {0, true});
    for (const int file : {1, 2})
      folder.put("cifar/data_batch_" + std::to_string(file) + ".bin", random_text(15 * 3073, file, 3073));
    folder.put("tiny_images.bin", random_text(30 * 3072, 3, 0));
    folder.put("train-images-idx3-ubyte",
               std::string("\0\0\x08\x03\0\0\0\x1e\0\0\0\x04\0\0\0\x04", 16) + random_text(30 * 16, 4, 0));
    folder.put("exclude.txt", "1 2 3 11 30");
  }
  // With a label below 10 at the start of every record.
  static std::string random_text(int64_t bytes, uint64_t seed, int64_t record) {
    const at::Tensor random = random_bytes({bytes}, seed);
    std::string text(static_cast<const char*>(random.data_ptr()), static_cast<size_t>(bytes));
    for (int64_t i = 0; record > 0 && i < bytes; i += record)
      text[static_cast<size_t>(i)] = static_cast<char>(i / record % 7);
    return text;
  }
  ReadOptions options() const { return {0, false, folder.path()}; }

  // Each image of the part is that image of the whole of which it has the number.
  void expect_told(const std::string& source, const std::string& part) {
    SCOPED_TRACE(source + part);
    const ImageSet whole = read_images(source, options()), set = read_images(source + part, options());
    std::vector<std::string> titles, paths;
    for (int64_t i = 0; i < set.size(); ++i) {
      titles.push_back(set.title(i));
      ASSERT_TRUE(set.pixels[set.row(i)].equal(whole.pixels[whole.row(std::stoll(titles.back()))])) << i;
    }
    std::vector<at::Tensor> blocks;
    ReadOptions telling = options();
    const auto keep = [&](const at::Tensor& pixels) { blocks.push_back(pixels); };
    const Labels labels = visit_images(source + part, telling, keep);
    telling.on_image = [&](const std::string& path, const Error* problem) {
      EXPECT_EQ(problem, nullptr);
      paths.push_back(path);
    };
    visit_images(source + part, telling, keep);
    const at::Tensor visited = at::cat(blocks);
    const std::string place = source.rfind("world:", 0) == 0 ? source : folder / source;
    ASSERT_EQ(paths.size(), titles.size());
    ASSERT_EQ(visited.size(0), 2 * set.size());
    for (int64_t i = 0; i < set.size(); ++i) {
      const std::string& title = titles[static_cast<size_t>(i)];
      EXPECT_EQ(labels.names.title(i), title);
      EXPECT_EQ(paths[static_cast<size_t>(i)], place + ":" + title);
      EXPECT_TRUE(visited[i].equal(set.pixels[set.row(i)]));
    }
  }
  TemporaryFolder folder;
};

TEST_F(Numbered, ImagesKeepTheirNumberInAnyPart) {
  std::vector<std::string> sources = {"a.npy",        "a.npz", "a.poem",          "{a,b}.poem",
                                      "shards",       "cifar", "tiny_images.bin", "train-images-idx3-ubyte",
                                      "world:test:30"};
#ifdef POEM_HAS_MATIO
  Mat{folder / "svhn.mat"}.write(random_bytes({30, 3, 32, 32}, 5),
                                 at::arange(30).remainder(10).add(1).to(at::kByte));
  sources.push_back("svhn.mat");
#endif
  for (const std::string& source : sources) {
    for (const char* part :
         {"", "#count=7", "#count=7#seed=3", "#exclude=exclude.txt", "#exclude=exclude.txt#count=9"}) {
      expect_told(source, part);
    }
  }
  for (const char* source : {"a.npy", "a.npz", "a.poem", "shards", "cifar", "world:test:30"})
    expect_told(source, "#per_class=2");
  expect_told("a.poem", "#exclude=exclude.txt#per_class=3#count=8");
  expect_told("shards", "#exclude=exclude.txt#per_class=3#count=8");
}

TEST_F(Numbered, ResizingChangesNoNumber) {
  ReadOptions small = options();
  small.size = 8;
  for (const char* source : {"a.poem#exclude=exclude.txt", "a.npy#exclude=exclude.txt"})
    EXPECT_EQ(read_images(source, small).title(0), "3") << source;
}

TEST_F(Numbered, ASurveyTellsTheNumbersOfTheWhole) {
  const at::Tensor image = random_bytes({1, 3, 8, 8}, 1);
  write_npy(folder / "twins.npy", at::cat({random_bytes({20, 3, 8, 8}, 2), image, image}));
  std::string list;
  for (int i = 1; i <= 19; ++i) list += std::to_string(i) + " ";
  folder.put("first.txt", list);
  const Survey found = survey("twins", "twins.npy#exclude=first.txt", folder.path());
  ASSERT_EQ(found.count(), 3);
  EXPECT_TRUE(same_pixels(found.marks[1], found.marks[2]));
  EXPECT_EQ(found.title(1) + " = " + found.title(2), "20 = 21");
}

// Named by their place in the source, not in the part of it.
TEST_F(Numbered, ArePackedUnderTheirNumber) {
  folder.put("set/a.png", encode_png(random_bytes({32, 32, 3}, 9)));
  pack_images(folder / "set", folder / "named.poem", {});
  write_npy(folder / "plain.npy", random_bytes({30, 3, 32, 32}, 1));
  pack_images("plain.npy#exclude=exclude.txt#count=4", folder / "named.poem", options(), {0, true});
  const ImageSet whole = read_images(folder / "plain.npy"), set = read_images(folder / "named.poem");
  ASSERT_EQ(set.size(), 5);
  const std::string start = folder / "plain.npy:";
  for (int64_t i = 1; i < 5; ++i) {
    const std::string title = set.title(i);
    ASSERT_EQ(title.rfind(start, 0), 0u) << title;
    EXPECT_TRUE(set.pixels[i].equal(whole.pixels[std::stoll(title.substr(start.size()))])) << title;
  }
}

// What docs/data.md says, byte by byte; and files written before images had names.
TEST_F(Named, ArePackedBehindTheClassNames) {
  pack_images(folder / "set#count=1", folder / "one.poem", {});
  const std::string file = read_file(folder / "one.poem");
  const std::string title = read("one.poem").title(0), end = std::string(R"(["cat","dog"])") + title + '\0';
  const size_t checksum = file.size() - 4;
  EXPECT_EQ(static_cast<size_t>(file[56]), title.size() + 1);
  EXPECT_EQ(file.substr(checksum - end.size(), end.size()), end);

  std::string before = file.substr(0, checksum - title.size() - 1);
  before[8] = 1;
  before.replace(56, 32, 32, '\0');
  write_file(folder / "before.poem", before);
  const ImageSet set = read("before.poem");
  EXPECT_TRUE(set.names.empty());
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(Named, RefusesDamagedNames) {
  pack_images(folder / "set", folder / "set.poem", {});
  const std::string good = read_file(folder / "set.poem");
  const auto expect_broken = [&](size_t offset, char value, const std::string& words) {
    std::string broken = good;
    broken[offset] = value;
    write_file(folder / "broken.poem", broken);
    expect_error([&] { read("broken.poem"); }, {"broken.poem", words, "pack the source again"});
  };
  expect_broken(good.size() - 5, 'x', "damaged names of images");
  expect_broken(good.size() - 9, '\0', "21 names for 20 images");
  for (size_t byte = 56; byte < 64; ++byte) expect_broken(byte, '\xff', "damaged header");
}

}  // namespace
}  // namespace poem
