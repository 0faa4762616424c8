#include "readers/shards.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "core/npy.h"
#include "encode_images.h"
#include "expect_error.h"
#include "images/device_images.h"
#include "images/pool.h"
#include "poem/read.h"
#include "poem/reader.h"
#include "readers/reader_tools.h"
#include "temporary_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

class Shards : public ::testing::Test {
 protected:
  // Packs images with labels (of as many classes as asked for) as shards.
  std::string pack(const std::string& name, const at::Tensor& pixels, const at::Tensor& labels,
                   const PackOptions& packing) {
    std::map<std::string, at::Tensor> arrays = {{"x", pixels}};
    if (labels.defined()) arrays["y"] = labels;
    write_npz(folder / "source.npz", arrays);
    pack_images(folder / "source.npz", folder / name, {}, packing);
    return folder / name;
  }
  std::vector<std::string> files(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / name))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  TemporaryFolder folder;
  const PackOptions small{3 * 64 * 64, false}, append{0, true};
};

// Images of 48, of 45 and of 3,072 bytes: their shards end at 256, at 4,096 and at 4 images.
TEST_F(Shards, AreOneSet) {
  for (const auto& [count, side] :
       std::vector<std::pair<int64_t, int64_t>>{{700, 4}, {9, 32}, {4, 32}, {1, 32}}) {
    const at::Tensor pixels = random_bytes({count, 3, side, side}, 1), labels = at::arange(count) % 3;
    const std::string name = std::to_string(count);
    const std::string path = pack(name, pixels, labels, small);
    EXPECT_EQ(files(name).size(), 1 + (count * 3 * side * side + small.shard_bytes - 1) / small.shard_bytes);
    const ImageSet set = read_images(path);
    EXPECT_TRUE(set.left_out.empty());
    EXPECT_TRUE(set.pixels.equal(pixels));
    EXPECT_TRUE(set.labels.equal(labels));
    EXPECT_TRUE(is_mapped(path));
    EXPECT_TRUE(outline_images(path).labels.equal(labels));
  }
}

TEST_F(Shards, ImagesOfAnyNumberOfBytesAreOneSet) {
  const at::Tensor pixels = random_bytes({9000, 3, 5, 3}, 1);  // shards of 4,096 images
  const std::string path = pack("set", pixels, {}, {1, false});
  EXPECT_EQ(files("set"),
            (std::vector<std::string>{"00000.poem", "00001.poem", "00002.poem", "shards.json"}));
  EXPECT_TRUE(read_images(path).pixels.equal(pixels));
  const std::string paged = pack("paged", pixels, {}, {5 * 4096 * 45 / 3, false});
  EXPECT_EQ(outline_packed(shard_paths(paged)[0]).count, 4096);  // the most that fit
}

// A shard that is not full is followed by rows that belong to no image.
TEST_F(Shards, GrowByAppending) {
  std::vector<at::Tensor> pixels, labels;
  for (int64_t part = 0; part < 4; ++part) {
    pixels.push_back(random_bytes({5 + part, 3, 32, 32}, static_cast<uint64_t>(part)));
    labels.push_back(at::arange(5 + part) % (2 + part));
    pack("set", pixels.back(), labels.back(), part == 0 ? small : append);
    const ImageSet set = read_images(folder / "set");
    const at::Tensor all = at::cat(pixels);
    ASSERT_EQ(set.size(), all.size(0));
    std::vector<int64_t> every(static_cast<size_t>(set.size()));
    std::iota(every.begin(), every.end(), 0);
    EXPECT_TRUE(subset(set, every).pixels.equal(all));
    EXPECT_TRUE(set.labels.equal(at::cat(labels)));
    EXPECT_EQ(set.class_names.size(), static_cast<size_t>(2 + part));
  }
  EXPECT_FALSE(read_images(folder / "set").left_out.empty());
  // Crops, parts and packing go by images, not by rows.
  const at::Tensor all = at::cat(pixels);
  const ImageSet set = read_images(folder / "set"), plain{"plain", all, {}, {}};
  const std::vector<Crop> pool = draw_pool(set.size(), 60, 1, 0);
  EXPECT_TRUE(cut(set, pool.data(), 60, {}).equal(cut(plain, pool.data(), 60, {})));
  folder.put("list.txt", "1\n6\n26\n");
  const ImageSet rest = read_images((folder / "set") + "#exclude=" + (folder / "list.txt"));
  ASSERT_EQ(rest.size(), 23);
  for (int64_t i = 0, image = 0; i < 23; ++i, ++image) {
    while (image == 0 || image == 5 || image == 25) ++image;
    EXPECT_TRUE(rest.pixels[rest.row(i)].equal(all[image])) << i;
    EXPECT_EQ(rest.labels[i].item<int64_t>(), set.labels[image].item<int64_t>());
  }
  pack_images(folder / "set", folder / "one.poem", {});
  EXPECT_TRUE(read_images(folder / "one.poem").pixels.equal(all));
}

TEST_F(Shards, OneFileGrowsByAppending) {
  const at::Tensor a = random_bytes({5, 3, 5, 3}, 1), b = random_bytes({6, 3, 5, 3}, 2);
  pack("one.poem", a, at::zeros({5}, at::kLong), {});
  pack("one.poem", b, at::arange(6), append);
  const ImageSet set = read_images(folder / "one.poem");
  EXPECT_TRUE(set.pixels.equal(at::cat({a, b})));
  EXPECT_TRUE(set.labels.equal(at::cat({at::zeros({5}, at::kLong), at::arange(6)})));
  EXPECT_TRUE(check_packed(folder / "one.poem").damage.empty());
  EXPECT_EQ(files(""), (std::vector<std::string>{"one.poem", "source.npz"}));
}

// Classes are joined by their names, whatever their numbers in each file.
TEST_F(Shards, JoinClassesByName) {
  for (const char* file : {"a/cat/1.png", "a/dog/2.png", "b/ant/3.png", "b/dog/4.png", "b/dog/5.png"})
    folder.put(file, encode_png(random_bytes({2, 2, 3}, static_cast<uint64_t>(file[6]))));
  pack_images(folder / "a", folder / "set-0.poem", {});
  pack_images(folder / "b", folder / "set-1.poem", {});
  const ImageSet set = read_images(folder / "set-{0..1}.poem");
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"cat", "dog", "ant"}));
  EXPECT_TRUE(set.labels.equal(at::tensor({0, 1, 2, 1, 1}, at::kLong)));
  EXPECT_EQ(set.title(2), "ant/3.png");
  EXPECT_EQ(set.title(4), "dog/5.png");
}

TEST_F(Shards, KeepTheirNamesWhenTheyGrow) {
  for (const char* file : {"a/1.png", "a/2.png"}) folder.put(file, encode_png(random_bytes({32, 32, 3}, 1)));
  for (const std::string name : {"set", "one.poem"}) {
    const PackOptions fresh = name == "set" ? small : PackOptions{};
    pack_images(folder / "a", folder / name, {}, fresh);
    pack(name, random_bytes({3, 3, 32, 32}, 2), {}, append);
    const ImageSet set = read_images(folder / name);
    const std::string source = folder / "source.npz";
    const std::vector<std::string> expected = {"1.png", "2.png", source + ":0", source + ":1", source + ":2"};
    ASSERT_EQ(set.names.size(), 5);
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(set.title(i), expected[static_cast<size_t>(i)]);
    // To images without names, images are added without theirs.
    fs::remove_all(folder / name);
    pack(name, random_bytes({3, 3, 32, 32}, 2), {}, fresh);
    pack_images(folder / "a", folder / name, {}, append);
    EXPECT_EQ(read_images(folder / name).size(), 5);
    EXPECT_TRUE(read_images(folder / name).names.empty());
  }
}

TEST_F(Shards, RefuseWhatDoesNotFit) {
  const at::Tensor pixels = random_bytes({5, 3, 32, 32}, 1), labels = at::arange(5);
  pack("set", pixels, labels, small);
  pack("a.poem", pixels, labels, {});
  for (const std::string name : {"set", "a.poem"}) {
    const auto before = files("");
    expect_error(
        [&] {
          pack(name, random_bytes({5, 3, 16, 16}, 1), labels, append);
        },
        {"source.npz", "3×16×16", "3×32×32", "option size 32"});
    expect_error([&] { pack(name, pixels, {}, append); }, {"source.npz", "no labels", name});
    EXPECT_TRUE(read_images(folder / name).labels.equal(labels));
    EXPECT_EQ(files(""), before);
  }
  EXPECT_EQ(files("set").size(), 3u);
  expect_error([&] { pack("none", pixels, labels, append); }, {"none", "no such packed file"});
  pack("b.poem", random_bytes({5, 3, 16, 16}, 1), labels, {});
  expect_error([&] { read_images(folder / "{a,b}.poem"); }, {"b.poem", "3×16×16", "a.poem", "3×32×32"});
  expect_error([&] { read_images(folder / "{a,c}.poem"); }, {"c.poem", "no such file"});
  expect_error([&] { read_images(folder / "{a}.poem"); }, {"'{a}'", "neither a range nor a list"});
}

TEST_F(Shards, ReplaceOthersOnlyWhenComplete) {
  const at::Tensor old = random_bytes({9, 3, 32, 32}, 1), fresh = random_bytes({5, 3, 32, 32}, 2);
  pack("set", old, {}, small);
  const auto before = files("set");
  EXPECT_THROW(pack_images("world2d:train", folder / "set", {}, small), Error);
  EXPECT_EQ(files("set"), before);
  EXPECT_TRUE(read_images(folder / "set").pixels.equal(old));
  const ImageSet mapped = read_images(folder / "set");
  pack("set", fresh, {}, small);
  EXPECT_TRUE(read_images(folder / "set").pixels.equal(fresh));
  EXPECT_TRUE(mapped.pixels.equal(old));  // who has the old ones mapped keeps them
  EXPECT_EQ(files("set").size(), 3u);
  check_shard_folder(folder / "set", true);
  expect_error([&] { check_shard_folder(folder / "set", false); }, {"exists already", "option force"});
  folder.put("other/file", "");
  expect_error([&] { check_shard_folder(folder / "other", true); }, {"no shards.json", "never replaced"});
  EXPECT_THROW(pack_images(folder / "missing", folder / "new", {}, small), Error);
  EXPECT_FALSE(fs::exists(folder / "new"));
}

// Packed files that a user wrote, and that only have the names of shards.
TEST_F(Shards, NeverReplaceOtherPackedFiles) {
  const at::Tensor mine = random_bytes({4, 3, 32, 32}, 1), pixels = random_bytes({9, 3, 32, 32}, 2);
  fs::create_directory(folder / "set");
  pack("set/00000.poem", mine, {}, {});
  for (const bool force : {false, true})
    expect_error([&] { check_shard_folder(folder / "set", force); },
                 {"set", "no shards.json", "another folder"});
  const std::string before = read_file(folder / "set/00000.poem");
  {
    ShardedWriter writer(folder / "set", small.shard_bytes, /*append=*/false);
    writer.add(pixels);
  }
  EXPECT_EQ(files("set"), std::vector<std::string>{"00000.poem"});
  pack("set", pixels, {}, small);
  EXPECT_EQ(read_file(folder / "set/00000.poem"), before);
  EXPECT_TRUE(read_images(folder / "set").pixels.equal(pixels));
}

// What a kill leaves is written anew without force, and goes away if that fails.
TEST_F(Shards, RemoveWhatAKilledWriterLeft) {
  const at::Tensor pixels = random_bytes({9, 3, 32, 32}, 1);
  for (const char* file : {"set/unfinished", "set/00000.poem", "set/00001.poem.tmp", "set/00007.poem.tmp"})
    folder.put(file, "0");
  expect_error([&] { read_images(folder / "set"); }, {"set", "no shards.json", "not finished"});
  check_shard_folder(folder / "set", false);
  EXPECT_THROW(pack_images("world2d:train", folder / "set", {}, small), Error);
  EXPECT_TRUE(files("set").empty());
  folder.put("set/unfinished", "0");
  folder.put("set/00000.poem", "");
  pack("set", pixels, {}, small);
  const std::vector<std::string> three = {"00000.poem", "00001.poem", "00002.poem", "shards.json"};
  EXPECT_EQ(files("set"), three);
  // Killed while appending: the shards that are listed stay.
  folder.put("set/unfinished", "3");
  folder.put("set/00003.poem", "");
  expect_error([&] { check_shard_folder(folder / "set", false); }, {"exists already"});
  EXPECT_TRUE(read_images(folder / "set").pixels.equal(pixels));
  EXPECT_THROW(pack_images("world2d:train", folder / "set", {}, append), Error);
  EXPECT_EQ(files("set"), three);
  folder.put("set/unfinished", "many");
  expect_error([&] { pack("set", pixels, {}, append); }, {"set/unfinished", "number of a shard"});
}

TEST_F(Shards, AreWrittenByOneProcessAtATime) {
  const at::Tensor pixels = random_bytes({9, 3, 32, 32}, 1);
  pack("set", pixels, {}, small);
  {
    ShardedWriter first(folder / "set", 0, /*append=*/true);
    first.add(pixels);
    expect_error([&] { ShardedWriter(folder / "set", 0, /*append=*/true); },
                 {"set", "in use by another process"});
    EXPECT_TRUE(read_images(folder / "set").pixels.equal(pixels));  // readers need no lock
  }
  EXPECT_EQ(files("set").size(), 4u);
}

TEST_F(Shards, OneFileIsWrittenByOneProcessAtATime) {
  const at::Tensor pixels = random_bytes({9, 3, 32, 32}, 1);
  const std::string path = pack("a.poem", pixels, {}, {});
  {
    const PackedWriter other(path);  // appends to it, or replaces it
    for (const PackOptions& packing : {append, PackOptions{}})
      expect_error([&] { pack("a.poem", pixels, {}, packing); },
                   {"a.poem", "is being written by another process"});
    EXPECT_TRUE(read_images(path).pixels.equal(pixels));  // readers need no lock
    EXPECT_EQ(files(""), (std::vector<std::string>{"a.poem", "a.poem.tmp", "source.npz"}));
  }
  pack("a.poem", pixels, {}, append);
  EXPECT_EQ(read_images(path).size(), 18);
  EXPECT_EQ(files(""), (std::vector<std::string>{"a.poem", "source.npz"}));
}

// While images are added, nobody replaces the file: their result would be lost.
TEST_F(Shards, AppendingKeepsOthersOutFromTheFirst) {
  const at::Tensor pixels = random_bytes({9, 3, 32, 32}, 1);
  const std::string path = pack("a.poem", pixels, {}, {});
  static const bool once = [] {
    const auto accepts = [](const std::string& place) { return has_extension(place, ".busy"); };
    const auto visit = [](const std::string& place, const ReadOptions&, const Sink& sink) -> Labels {
      const std::string out = place.substr(0, place.rfind('/')) + "/a.poem";
      expect_error([&] { pack_images("world:train:3", out, {}); }, {out, "is being written"});
      sink(at::zeros({2, 3, 32, 32}, at::kByte));
      return {};
    };
    register_reader({"whose reader packs (.busy)", accepts, visit});
    return true;
  }();
  ASSERT_TRUE(once);
  folder.put("b.busy", "");
  pack_images(folder / "b.busy", path, {}, append);
  EXPECT_EQ(read_images(path).size(), 11);
}

TEST_F(Shards, AreMissed) {
  pack("set", random_bytes({9, 3, 32, 32}, 1), {}, small);
  pack("other", random_bytes({9, 3, 32, 32}, 2), {}, small);
  const auto rename = [&](const std::string& from, const std::string& to) {
    fs::rename(folder / from, folder / to);
  };
  rename("set/00001.poem", "kept");
  expect_error([&] { read_images(folder / "set"); }, {"set/00001.poem", "is missing", "shards.json"});
  fs::copy_file(folder / "other/00001.poem", folder / "set/00001.poem");
  expect_error([&] { read_images(folder / "set"); }, {"set/00001.poem", "is not the shard"});
  fs::remove(folder / "set/00001.poem");
  rename("kept", "set/00001.poem");
  EXPECT_EQ(read_images(folder / "set").size(), 9);
  fs::resize_file(folder / "set/00002.poem", 5000);
  expect_error([&] { read_images(folder / "set"); }, {"set/00002.poem", "5000 bytes"});
  fs::remove(folder / "set/shards.json");
  expect_error([&] { read_images(folder / "set"); }, {"set", "no shards.json", "copy the folder again"});
  for (
      const char* list :
      {"", "{}", R"({"kind":"poem shards","version":1,"images_per_shard":4,"shards":[]})",
       R"({"kind":"poem shards","version":1,"images_per_shard":4,"shards":[{"file":"../other/00000.poem","images":4,"checksum":1}]})"}) {
    folder.put("set/shards.json", list);
    expect_error([&] { read_images(folder / "set"); }, {"set/shards.json"});
  }
}

// Every byte after the header is covered by one block, and the header by its own checksum.
TEST_F(Shards, EveryChangedByteIsFound) {
  const std::string path = pack("a.poem", random_bytes({400, 3, 32, 32}, 1), at::arange(400) % 2, {});
  const PackedCheck whole = check_packed(path);
  EXPECT_EQ(whole.count, 400);
  EXPECT_EQ(whole.blocks, 2);
  EXPECT_TRUE(whole.has_checksums);
  EXPECT_TRUE(whole.damage.empty());
  const std::string good = read_file(path);
  const auto changed = [&](size_t offset) {
    std::string bytes = good;
    bytes[offset] ^= 1;
    folder.put("bad.poem", bytes);
    return folder / "bad.poem";
  };
  constexpr size_t kPixels = 4096, kBlock = 1 << 20;
  for (const size_t offset :
       {kPixels, kPixels + 3071, kPixels + kBlock - 1, kPixels + kBlock, good.size() - 30}) {
    const auto damage = check_packed(changed(offset)).damage;
    ASSERT_EQ(damage.size(), 1u) << offset;
    const int64_t image = static_cast<int64_t>(offset - kPixels) / 3072;
    EXPECT_EQ(damage[0].block, static_cast<int64_t>((offset - kPixels) / kBlock));
    if (image < 400) {
      EXPECT_LE(damage[0].first_image, image);
      EXPECT_GE(damage[0].last_image, image);
    }
    EXPECT_EQ(damage[0].tables, damage[0].block == 1);
  }
  for (const size_t offset : {size_t{9}, size_t{27}, size_t{70}, size_t{76}, size_t{82}, good.size() - 1})
    expect_error([&] { check_packed(changed(offset)); }, {"bad.poem"});
}

// A damaged file would get correct checksums if it were written again.
TEST_F(Shards, DamageIsNotPackedAgain) {
  const at::Tensor pixels = random_bytes({9, 3, 32, 32}, 1);
  for (const std::string name : {"a.poem", "set"}) {
    pack(name, pixels, {}, name == "set" ? small : PackOptions{});
    const std::string file = name == "set" ? "set/00001.poem" : name;
    std::string bytes = read_file(folder / file);
    bytes[5000] ^= 1;
    folder.put(file, bytes);
    const std::string images = name == "set" ? "images 0 to 3" : "images 0 to 8";
    for (const char* part : {"", "#count=1"})
      expect_error([&] { pack_images((folder / name) + part, folder / "b.poem", {}); },
                   {file, "damaged", "block 0", images, "labels or names"});
    EXPECT_FALSE(fs::exists(folder / "b.poem"));
    EXPECT_EQ(read_file(folder / file), bytes);
  }
  expect_error([&] { pack("a.poem", pixels, {}, append); }, {"a.poem", "damaged", "images 0 to 8"});
  pack("set", pixels, {}, append);  // writes no old image again
  EXPECT_FALSE(check_packed(folder / "set/00001.poem").damage.empty());
}

// A pool of shards with gaps is uniform over their images: χ² with 26 degrees of freedom.
TEST_F(Shards, AreSampledUniformly) {
  for (int64_t part = 0; part < 3; ++part)
    pack("set", random_bytes({9, 3, 32, 32}, static_cast<uint64_t>(part)), {}, part == 0 ? small : append);
  const ImageSet set = read_images(folder / "set");
  ASSERT_EQ(set.size(), 27);
  std::vector<double> drawn(27);
  constexpr int64_t kEpochs = 3000, kPool = 9;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::set<int64_t> rows;
    for (const Crop& crop : draw_pool(Mixture(set), kPool, 5, epoch)) {
      rows.insert(set.row(crop.image));
      ++drawn[static_cast<size_t>(crop.image)];
    }
    EXPECT_EQ(rows.size(), static_cast<size_t>(kPool));  // without repeats
  }
  // Draws without repeats vary less than independent ones, by the factor (1 − 9/27).
  const double expected = kEpochs * kPool / 27.0;
  double chi = 0;
  for (const double n : drawn) chi += (n - expected) * (n - expected) / (expected * (1 - 9.0 / 27));
  EXPECT_LT(chi, 54.05);  // exceeded with a chance of 0.001
  EXPECT_GT(chi, 8.5);    // below it with the same chance
}

TEST(ExpandBraces, AsInShells) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_braces("a.tar"), Names{"a.tar"});
  EXPECT_EQ(expand_braces("a-{008..011}.tar"), (Names{"a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"}));
  EXPECT_EQ(expand_braces("{9..11}"), (Names{"9", "10", "11"}));
  EXPECT_EQ(expand_braces("{x,yy,}{0..1}"), (Names{"x0", "x1", "yy0", "yy1", "0", "1"}));
  for (const char* text : {"{3..1}", "{a..c}", "{1..}", "{}", "{-1..1}", "{0..99999999}"})
    expect_error([&] { expand_braces(text); }, {text, "neither a range nor a list"});
  EXPECT_EQ(expand_braces("a}b{"), Names{"a}b{"});
  EXPECT_EQ(expand_braces("{0..99}{0..99}{0..99}").size(), 1000000u);
  for (const char* text : {"{0..999999}{0..999999}", "{0..99}{0..99}{0..99}{a,b}", "{a,b}{0..999999}"})
    expect_error([&] { expand_braces(text); }, {text, "more than 1000000 names"});
}

}  // namespace
}  // namespace poem
