// The names of images stay with their images, whatever is left out, taken or packed.
#include "poem/images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "encode_images.h"
#include "expect_error.h"
#include "poem/read.h"
#include "readers/packed.h"
#include "temporary_folder.h"

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

TEST(ImageSetTitle, IsTheNameOrTheIndex) {
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
