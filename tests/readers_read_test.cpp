#include "poem/read.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "encode_images.h"
#include "expect_error.h"
#include "log.h"
#include "poem/reader.h"
#include "readers/source.h"
#include "temporary_folder.h"

#ifdef POEM_HAS_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

namespace poem {
namespace {

namespace fs = std::filesystem;

std::string png(uint64_t seed, int64_t height = 6, int64_t width = 6) {
  return encode_png(random_bytes({height, width, 3}, seed));
}

at::Tensor planes(uint64_t seed, int64_t side = 6) {
  return random_bytes({side, side, 3}, seed).permute({2, 0, 1}).contiguous();
}

class Folder : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) { folder.put(name, content); }
  std::function<void()> reading(ReadOptions options = {}) {
    return [path = folder.path(), options] { read_images(path, options); };
  }
  TemporaryFolder folder;
};

TEST_F(Folder, SubfoldersAreSortedClasses) {
  put("dog/b.png", png(1));
  put("dog/a.PNG", png(2));
  put("cat/deep/er/z.png", png(3));
  put("cat/notes.txt", "not an image");
  put("emu/.hidden.png", "not an image either");
  put("__MACOSX/dog/a.png", "nor this");
  const ImageSet set = read_images(folder.path());
  EXPECT_TRUE(set.pixels.equal(at::stack({planes(3), planes(2), planes(1)})));
  EXPECT_TRUE(set.labels.equal(at::tensor({0, 1, 1}, at::kLong)));
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(Folder, OneFolderHasNoLabels) {
  put("2.png", png(2));
  put("1.jpeg", encode_jpeg(at::full({6, 6, 3}, 77, at::kByte)));
  ImageSet set = read_images(folder.path());
  EXPECT_FALSE(set.labelled());
  EXPECT_TRUE(set.class_names.empty());
  EXPECT_LE((set.pixels[0].to(at::kInt) - 77).abs().max().item<int>(), 2);
  EXPECT_TRUE(set.pixels[1].equal(planes(2)));
}

TEST_F(Folder, AnImageBesideTheClassesIsAnError) {
  put("cat/a.png", png(1));
  put("dog/a.png", png(2));
  put("stray.png", png(3));
  expect_error(reading(), {folder.path(), "outside of its class folders"});
}

TEST_F(Folder, FoldersThatAllShareAreNoClasses) {
  put("set/images/1.png", png(1));
  EXPECT_FALSE(read_images(folder.path()).labelled());
  put("set/images/b/1.png", png(1));
  fs::remove(folder / "set/images/1.png");
  put("set/images/ab/1.png", png(2));
  EXPECT_EQ(read_images(folder.path()).class_names, (std::vector<std::string>{"ab", "b"}));
  EXPECT_EQ(read_images(folder.path() + "/").class_names, (std::vector<std::string>{"ab", "b"}));
  put("set/1.png", png(1));
  expect_error(reading(), {folder.path(), "outside of its class folders", "set/1.png"});
}

TEST_F(Folder, ManyBlocksKeepTheirOrder) {
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 600; ++i) {
    char name[16];
    snprintf(name, sizeof name, "%04d.png", i);
    put(name, png(i, 2, 2));
    expected.push_back(planes(i, 2));
  }
  EXPECT_TRUE(read_images(folder.path()).pixels.equal(at::stack(expected)));
}

TEST_F(Folder, DifferingSizesNeedASize) {
  put("a.png", png(1));
  put("b.png", png(2, 9, 12));
  expect_error(reading(), {"b.png", "9×12", "a.png", "6×6", "option size", "outliers.fit: resize"});
  ReadOptions options;
  options.size = 4;
  EXPECT_EQ(read_images(folder.path(), options).pixels.sizes(), at::IntArrayRef({2, 3, 4, 4}));
}

TEST_F(Folder, OneBadImageIsNamedOrLeftOut) {
  const std::string bad[] = {png(9).substr(0, 60), "", "text",
                             encode_jpeg(random_bytes({6, 6, 3}, 1)).substr(0, 500)};
  for (const std::string& content : bad) {
    put("a/1.png", png(1));
    put("b/2.jpg", content);
    put("c/3.png", png(3));
    expect_error(reading(), {"b/2.jpg", "cannot be decoded", "option skip_bad"});
    ReadOptions options;
    options.skip_bad = true;
    const Log log;
    const ImageSet set = read_images(folder.path(), options);
    EXPECT_NE(log.text().find("b/2.jpg: cannot be decoded"), std::string::npos) << log.text();
    EXPECT_EQ(log.text().find("skip"), std::string::npos) << "advice that was taken: " << log.text();
    EXPECT_TRUE(set.pixels.equal(at::stack({planes(1), planes(3)})));
    EXPECT_TRUE(set.labels.equal(at::tensor({0, 2}, at::kLong)));  // b stays a class: labels do not shift
    EXPECT_EQ(set.class_names.size(), 3u);
  }
  put("a/1.png", "");
  put("c/3.png", "");
  const Log log;
  ReadOptions options;
  options.skip_bad = true;
  expect_error(reading(options), {folder.path(), "no image that can be decoded"});
}

// Names are chosen first: that an image is not decoded shows where it cannot be.
TEST_F(Folder, OnlyTheChosenImagesAreDecoded) {
  for (int i = 0; i < 4; ++i) {
    put("a/" + std::to_string(i) + ".png", png(i));
    put("b/" + std::to_string(i) + ".png", png(4 + i));
  }
  const auto part = [&](const std::string& options) { return read_images(folder.path() + options); };
  const ImageSet all = read_images(folder.path());
  for (const std::string options : {"#count=1", "#count=5#seed=3", "#per_class=2", "#per_class=3#count=4"}) {
    const ImageSet chosen = part(options);
    ImageSet expected = all;
    take_part(expected, parse_source(folder.path() + options, ""));
    EXPECT_TRUE(chosen.pixels.equal(expected.pixels)) << options;
    EXPECT_TRUE(chosen.labels.equal(expected.labels)) << options;
    EXPECT_EQ(chosen.class_names, all.class_names) << options << ": a class without an image is still one";
  }
  folder.put("first.txt", "1");
  put("a/0.png", "no image");
  EXPECT_TRUE(part("#exclude=" + (folder / "first.txt")).pixels.equal(all.pixels.narrow(0, 1, 7)));
  expect_error([&] { part("#count=8"); }, {"a/0.png", "cannot be decoded"});
  expect_error([&] { part("#count=9"); }, {"contains 8 images", "asks for 9"});
  EXPECT_EQ(pack_images(folder.path() + "#exclude=" + (folder / "first.txt"), folder / "part.poem", {}), 7);
  EXPECT_TRUE(read_images(folder / "part.poem").pixels.equal(all.pixels.narrow(0, 1, 7)));
}

TEST_F(Folder, RefusesFoldersWithoutImages) {
  expect_error(reading(), {folder.path(), "contains no image", ".webp"});
  put("notes.txt", "hello");
  put("a/b.HEIC", "hello");
  expect_error(reading(), {folder.path(), "contains no image, only 2 files: 1 .heic, 1 .txt"});
}

TEST(ReadImages, RefusesWhatItDoesNotKnow) {
  TemporaryFolder folder;
  expect_error([&] { read_images(folder / "missing.npy"); }, {"missing.npy", "no such file"});
  expect_error([&] { read_images(""); }, {"no such file"});
  write_file(folder / "a.gif", "GIF89a");
  expect_error([&] { read_images(folder / "a.gif"); },
               {"a.gif", "unknown format", ".npz", "CIFAR", ".poem", "world:"});
  ReadOptions options;
  options.size = -1;
  expect_error([&] { read_images(folder / "a.gif", options); }, {"resized to -1"});
}

TEST(ReadImages, DrawsWorlds) {
  EXPECT_EQ(read_images("world:train:5").size(), 5);
  EXPECT_EQ(read_images("world:digits").size(), 1000);
  EXPECT_TRUE(read_images("world:outliers:7:3")
                  .pixels.equal(read_images("world:outliers:9:3").pixels.narrow(0, 0, 7)));
  EXPECT_FALSE(read_images("world:train:7:3").pixels.equal(read_images("world:train:7:4").pixels));
  EXPECT_EQ(read_images("world2d:test").pixels.sizes(), at::IntArrayRef({2000, 2, 1, 1}));
  ReadOptions options;
  options.size = 16;
  EXPECT_EQ(read_images("world:train:5", options).pixels.sizes(), at::IntArrayRef({5, 3, 16, 16}));
  for (const char* source :
       {"world:train:0", "world:train:-1", "world:train:x", "world:train:5:", "world:train:5:1.5",
        "world:train:5:1:1", "world2d:train:5e3", "world:train:99999999999999999999"})
    expect_error([&] { read_images(source); }, {source, "world"});
}

#ifdef POEM_HAS_ARCHIVE

using Files = std::vector<std::pair<std::string, std::string>>;

std::string pack(const std::string& path, const Files& files) {
  archive* out = archive_write_new();
  if (path.find(".zip") != path.npos) {
    archive_write_set_format_zip(out);
  } else {
    archive_write_set_format_pax_restricted(out);
    if (path.find(".gz") != path.npos) archive_write_add_filter_gzip(out);
    if (path.find(".xz") != path.npos) archive_write_add_filter_xz(out);
  }
  archive_write_open_filename(out, path.c_str());
  for (const auto& [name, content] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(out, entry);
    archive_write_data(out, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_free(out);
  return path;
}

const char* const kArchives[] = {"a.zip", "a.tar", "a.tar.gz", "a.tar.xz", "a.TXZ"};

TEST(ArchiveReader, KeepsTheOrderOfEntriesAndSortsClasses) {
  TemporaryFolder folder;
  for (const char* name : kArchives) {
    pack(folder / name, {{"./set/dog/9.png", png(1)},
                         {"./set/readme.txt", "hello"},
                         {"./set/cat/x.png", png(2)},
                         {"./set/dog/1.png", png(3)},
                         {"__MACOSX/set/dog/._1.png", "no image"}});
    const ImageSet set = read_images(folder / name);
    EXPECT_TRUE(set.pixels.equal(at::stack({planes(1), planes(2), planes(3)}))) << name;
    EXPECT_TRUE(set.labels.equal(at::tensor({1, 0, 1}, at::kLong)));
    EXPECT_EQ(set.class_names, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(set.title(0) + set.title(1) + set.title(2), "set/dog/9.pngset/cat/x.pngset/dog/1.png");
    pack(folder / name, {{"2.png", png(1)}, {"1.png", png(2)}});
    EXPECT_FALSE(read_images(folder / name).labelled());
  }
}

TEST(ArchiveReader, RefusesBrokenArchives) {
  TemporaryFolder folder;
  for (const char* name : kArchives) {
    const std::string path = folder / name;
    const auto reading = [&] { read_images(path); };
    pack(path, {{"1.png", png(1, 40, 40)}, {"2.png", png(2, 40, 40)}});
    const std::string good = read_file(path);
    for (const size_t size : {good.size() / 10, good.size() / 2, good.size() * 3 / 4}) {
      write_file(path, good.substr(0, size));
      expect_error(reading, {path});
    }
    write_file(path, "");
    expect_error(reading, {path});
    write_file(path, std::string(3000, 'x'));
    expect_error(reading, {path});
    pack(path, {{"readme.txt", "hello"}});
    expect_error(reading, {path, "contains no image, only 1 file: 1 .txt"});
    pack(path, {{"1.png", png(1)}, {"b/2.png", png(2, 9, 9)}});
    expect_error(reading, {path + ":b/2.png", "9×9", "option size"});
  }
}

TEST(ArchiveReader, OneBadImageIsNamedOrLeftOut) {
  TemporaryFolder folder;
  const Log log;
  ReadOptions options;
  options.skip_bad = true;
  for (const char* name : kArchives) {
    const std::string path = pack(folder / name, {{"1.png", png(1)}, {"2.png", "broken"}, {"3.png", png(3)}});
    expect_error([&] { read_images(path); }, {path + ":2.png", "cannot be decoded", "option skip_bad"});
    const ImageSet set = read_images(path, options);
    EXPECT_TRUE(set.pixels.equal(at::stack({planes(1), planes(3)})));
    EXPECT_EQ(set.title(1), "3.png");
  }
  // A zip whose middle entry does not match its checksum.
  const std::string path = pack(folder / "b.zip", {{"1.png", png(1)}, {"2.png", png(2)}, {"3.png", png(3)}});
  std::string content = read_file(path);
  content[content.find("2.png") + 60] ^= 0x20;
  write_file(path, content);
  expect_error([&] { read_images(path); }, {path + ":2.png", "option skip_bad"});
  EXPECT_TRUE(read_images(path, options).pixels.equal(at::stack({planes(1), planes(3)})));
}

// Changes a field of the second entry of a zip: in its own header and in the directory.
void spoil(const std::string& path, size_t own, size_t listed, char value) {
  std::string zip = read_file(path);
  for (const auto& [mark, offset] : {std::pair(std::string("PK\3\4"), own), {"PK\1\2", listed}})
    zip[zip.find(mark, zip.find(mark) + 4) + offset] = value;
  write_file(path, zip);
}

// What is wrong with it is told, not that it is empty.
TEST(ArchiveReader, TellsWhyAnEntryCannotBeUnpacked) {
  struct Case {
    size_t own, listed;  // places of the field in the two headers
    char value;
    std::string problem, remedy;
  };
  const std::vector<Case> cases = {
      {6, 8, 9, "is encrypted", "save the archive without a password, or skip such images"},
      {14, 16, 1, "cannot be unpacked: ZIP bad CRC", "download or pack it again, or skip such images"},
      {8, 10, 77, "cannot be unpacked: Unsupported ZIP compression method", "download or pack it again"}};
  TemporaryFolder folder;
  const Log log;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.problem);
    const std::string path =
        pack(folder / "a.zip", {{"1.png", png(1)}, {"2.png", png(2)}, {"3.png", png(3)}});
    spoil(path, one.own, one.listed, one.value);
    expect_error([&] { read_images(path); },
                 {path + ":2.png: " + one.problem, one.remedy, "option skip_bad"});
    ReadOptions options;
    options.skip_bad = true;
    std::vector<Error> bad;
    options.on_bad = [&](const Error& error) { bad.push_back(error); };
    const ImageSet set = read_images(path, options);
    EXPECT_TRUE(set.pixels.equal(at::stack({planes(1), planes(3)})));
    EXPECT_EQ(set.title(1), "3.png");
    ASSERT_EQ(bad.size(), 1u);
    EXPECT_EQ(bad[0].where(), path + ":2.png");
    EXPECT_EQ(bad[0].problem().rfind(one.problem, 0), 0u) << bad[0].problem();
    std::string told;
    ReadOptions telling;
    telling.on_image = [&](const std::string& name, const Error* error) {
      told += name.substr(path.size()) + (error ? " " + error->problem().substr(0, one.problem.size()) : "") +
              "; ";
    };
    visit_images(path, telling, [](const at::Tensor&) {});
    EXPECT_EQ(told, ":1.png; :2.png " + one.problem + "; :3.png; ");
  }
  // A class that cannot be read is not an empty one.
  const std::string path =
      pack(folder / "b.zip", {{"1.png", png(1)}, {"1.cls", "a class with a name of some length"}});
  spoil(path, 6, 8, 9);
  expect_error([&] { read_images(path); }, {path + ":1.cls: is encrypted", "without a password"});
}

#endif

}  // namespace
}  // namespace poem
