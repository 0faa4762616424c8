// What lies beside images is counted, and a class without an image is named.
#include "readers/passed_over.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "encode_images.h"
#include "expect_error.h"
#include "log.h"
#include "poem/read.h"
#include "temporary_folder.h"

namespace poem {
namespace {

using Names = std::vector<std::string>;

TEST(PassedOver, CountsFilesByExtension) {
  PassedOver passed_over;
  EXPECT_EQ(passed_over.summary(), "");
  passed_over.add_folder("a");
  EXPECT_EQ(passed_over.summary(), "");
  passed_over.add_file("a/1.TXT");
  EXPECT_EQ(passed_over.summary(), "1 file: 1 .txt");
  for (const char* name : {"2.txt", "a/b/c.heic", "a/README", "b.heic", "c.heic"}) passed_over.add_file(name);
  EXPECT_EQ(passed_over.summary(), "6 files: 3 .heic, 2 .txt, 1 without extension");
  for (const char* name : {"1.a", "1.b", "1.c", "1.d", "1.e"}) passed_over.add_file(name);
  EXPECT_EQ(passed_over.summary(), "11 files: 3 .heic, 2 .txt, 1 .a, 1 .b, 1 .c, 1 .d, 2 others");
}

TEST(PassedOver, NamesFoldersBesideTheClasses) {
  PassedOver passed_over;
  for (const char* folder : {"set", "set/cat", "set/dog", "set/gnu", "other", "set/cat/notes"})
    passed_over.add_folder(folder);
  for (const char* file : {"set/readme.txt", "set/emu/1.heic", "set/emu/old/2.heic", "set/cat/notes/a.txt"})
    passed_over.add_file(file);
  // Not what lies inside a class, nor beside the folder of all classes.
  EXPECT_EQ(passed_over.empty_classes({"set/cat", "set/dog/deep"}),
            (Names{"set/emu (2 .heic)", "set/gnu (empty)"}));
  // Of the classes one is left: all images lie in one folder. So the others may lie at any level.
  EXPECT_EQ(passed_over.empty_classes({"set/cat"}),
            (Names{"other (empty)", "set/dog (empty)", "set/emu (2 .heic)", "set/gnu (empty)"}));
  // Images lie at the top: there are no classes.
  EXPECT_EQ(passed_over.empty_classes({""}), Names{});
}

class Emptied : public ::testing::Test {
 protected:
  Emptied() {
    put("cat/1.png");
    put("dog/1.png");
  }
  void put(const std::string& name) { folder.put(name, encode_png(random_bytes({2, 2, 3}, 1))); }
  ImageSet read(bool skip_bad, bool every_class) {
    return read_images(folder.path(), {0, skip_bad, "", every_class});
  }
  TemporaryFolder folder;
};

TEST_F(Emptied, AClassWithoutAnImageIsAWarningOrAnError) {
  {
    const Log log;
    EXPECT_EQ(read(false, true).size(), 2);
    EXPECT_EQ(log.text(), "");
  }
  folder.put("emu/1.heic", "");
  folder.put("emu/2.heic", "");
  folder.put("emu/.DS_Store", "");
  folder.put("emu/Thumbs.db", "");
  folder.put("cat/.notes.txt", "");
  const Log log;
  EXPECT_EQ(read(false, false).class_names, (Names{"cat", "dog"}));
  EXPECT_NE(log.text().find(folder.path() + ": passed over 2 files: 2 .heic\n"), std::string::npos)
      << log.text();
  EXPECT_NE(
      log.text().find("[warning] " + folder.path() + " has class folders without an image: emu (2 .heic)"),
      std::string::npos)
      << log.text();
  expect_error([&] { read(false, true); },
               {folder.path(), "class folders without an image: emu (2 .heic)", "move the folders away"});
  put("emu/3.bmp");  // the content decides: it is a PNG
  EXPECT_EQ(read(false, true).class_names, (Names{"cat", "dog", "emu"}));
}

TEST_F(Emptied, TheLastClassButOneIsNotLostEither) {
  std::filesystem::remove(folder / "dog/1.png");
  const Log log;
  EXPECT_FALSE(read(false, false).labelled());
  EXPECT_NE(log.text().find("without an image: dog (empty)"), std::string::npos) << log.text();
  expect_error([&] { read(false, true); }, {"without an image: dog (empty)"});
}

TEST_F(Emptied, AClassOfBadImagesIsOneWithoutAnImage) {
  folder.put("emu/1.png", "no image");
  folder.put("emu/2.jpg", "");
  folder.put("dog/2.jpg", "");
  const Log log;
  EXPECT_EQ(read(true, false).class_names, (Names{"cat", "dog", "emu"}));
  EXPECT_NE(log.text().find("without an image: emu (2 that cannot be decoded)"), std::string::npos)
      << log.text();
  expect_error([&] { read(true, true); }, {"without an image: emu (2 that cannot be decoded)"});
}

// "a-b" sorts between "a" and "a/b", so that the first and the last share more than all do.
TEST(ClassFolders, AreToldApartByWholeNames) {
  TemporaryFolder folder;
  for (const char* name : {"a/deep/1.png", "a/1.png", "a-b/1.png"})
    folder.put(name, encode_png(random_bytes({2, 2, 3}, 1)));
  const ImageSet set = read_images(folder.path());
  EXPECT_EQ(set.class_names, (Names{"a", "a-b"}));
  EXPECT_EQ(set.title(0), "a-b/1.png");
  EXPECT_TRUE(set.labels.equal(at::tensor({1, 0, 0}, at::kLong)));
}

TEST(SingleImage, IsASourceOfOne) {
  TemporaryFolder folder;
  const at::Tensor rows = random_bytes({3, 1024, 3}, 1);  // as wide as a sprite sheet of CIFAR
  folder.put("photos/photo.PNG", encode_png(rows));
  folder.put("photos/other.jpg", encode_jpeg(random_bytes({5, 6, 3}, 1)));
  const ImageSet set = read_images(folder / "photos/photo.PNG");
  EXPECT_TRUE(set.pixels.equal(rows.permute({2, 0, 1}).unsqueeze(0)));
  EXPECT_FALSE(set.labelled());
  EXPECT_EQ(set.title(0), "photo.PNG");
  EXPECT_EQ(read_images(folder / "photos/other.jpg", {4}).pixels.sizes(), at::IntArrayRef({1, 3, 4, 4}));
  EXPECT_EQ(pack_images(folder / "photos/other.jpg", folder / "one.poem", {}), 1);
  folder.put("photos/bad.webp", "RIFF");
  expect_error([&] { read_images(folder / "photos/bad.webp"); }, {"bad.webp", "cannot be decoded"});
}

}  // namespace
}  // namespace poem
