#include "catalogue/manifest.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "catalogue/verify.h"
#include "core/checksum.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

TEST(Checksum, IsThatOfThePublishedTestVectors) {
  TemporaryFolder folder;
  folder.put("abc", "abc");
  folder.put("none", "");
  const auto md5 = checksum(folder / "abc", "md5");
  if (!md5) GTEST_SKIP() << "built without libcrypto";
  EXPECT_EQ(*md5, "md5:900150983cd24fb0d6963f7d28e17f72");  // RFC 1321
  EXPECT_EQ(*checksum(folder / "abc", "sha256"),            // FIPS 180-2
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(*checksum(folder / "none", "md5"), "md5:d41d8cd98f00b204e9800998ecf8427e");
  // FIPS 180-2: a million times the letter a.
  folder.put("long", std::string(1000000, 'a'));
  EXPECT_EQ(*checksum(folder / "long", "sha256"),
            "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  expect_error([&] { checksum(folder / "missing", "md5"); }, {"missing", "cannot be read"});
}

TEST(Manifest, HoldsTheSetsOfThePaperWithWhatIsNeeded) {
  const Manifest manifest = known_sets();
  for (const char* name : {"cifar-10", "cifar-100", "svhn", "dtd", "places365", "lsun-crop", "lsun-resize",
                           "isun", "imagenet-32", "imagenet-64", "tiny-images"}) {
    EXPECT_NO_THROW(find_set(manifest, name)) << name;
  }
  std::set<std::string> names;
  for (const KnownSet& set : manifest) {
    EXPECT_TRUE(names.insert(set.name).second) << set.name << " is there twice";
    EXPECT_GT(set.images, 0) << set.name;
    EXPECT_FALSE(set.use.empty()) << set.name;
    for (const KnownFile& file : set.downloads) {
      EXPECT_EQ(file.sources.empty(), !set.withdrawn.empty()) << file.name;
    }
  }
  // Sizes that follow from the formats: records of 1 or 2 label bytes and 3,072 pixels, bare pixels.
  for (const KnownFile& file : find_set(manifest, "cifar-10").unpacked) EXPECT_EQ(file.most, 10000 * 3073);
  EXPECT_EQ(find_set(manifest, "cifar-100").unpacked[0].most, 50000 * 3074);
  const KnownSet tiny = find_set(manifest, "tiny-images");
  EXPECT_EQ(tiny.downloads[0].most, tiny.images * 3072);
  expect_error([&] { find_set(manifest, "svnh"); }, {"svnh", "nearest is 'svhn'", "known: ", "tiny-images"});
}

TEST(Manifest, OfAnotherFormIsAnError) {
  TemporaryFolder folder;
  const auto expect = [&](const std::string& text, const std::vector<std::string>& words) {
    folder.put("m.yaml", text);
    expect_error([&] { read_manifest(folder / "m.yaml"); }, words);
  };
  expect("", {"m.yaml", "contains no data set"});
  expect("a: [", {"m.yaml", "not valid YAML"});
  expect("a: &x {title: *x}\n", {"m.yaml:1", "anchor contains itself"});
  expect("a: 1\n", {"m.yaml: a", "not a map"});
  expect("a: {downloads: [{file: x}]}\n", {"m.yaml: a", "no 'title'"});
  expect("a: {title: t}\n", {"no 'downloads'"});
  expect("a: {title: t, downloads: [{bytes: 3}]}\n", {"no 'file'"});
  expect("a: {title: t, downloads: [{file: x, bites: 3}]}\n", {"unknown key 'bites'", "'bytes'"});
  expect("a: {title: t, downloads: [{file: ../x}]}\n", {"'file'"});
  expect("a: {title: t, downloads: [{file: x, bytes: many}]}\n", {"'bytes'", "wrong kind"});
  expect("a: {title: t, downloads: [{file: x, md5: 12}]}\n", {"'md5'", "32 hexadecimal digits"});
  expect("a: {title: t, downloads: [{file: x, between: [2, 1]}]}\n", {"'between'"});
  expect("a: {title: t, folders: [x], downloads: [{file: x}]}\n", {"'images'"});
  expect("a: {title: t, downloads: [{file: x, sources: ['http://x/', '']}]}\n",
         {"m.yaml: a", "'sources'", "empty"});
}

// ---- what a folder holds -------------------------------------------------------------------------------

class Holdings : public ::testing::Test {
 protected:
  Holdings() {
    folder.put(
        "m.yaml",
        "files:\n  title: t\n  downloads: [{file: f.tar, bytes: 3, md5: 900150983cd24fb0d6963f7d28e17f72}]\n"
        "  unpacked:\n    - {file: a.bin, bytes: 3, md5: 900150983cd24fb0d6963f7d28e17f72}\n"
        "    - {file: b.bin, bytes: 2}\n"
        "large:\n  title: t\n  downloads: [{file: l.zip}]\n  unpacked: [{file: x.npz, between: [10, 20]}]\n"
        "small:\n  title: t\n  downloads: [{file: s.zip}]\n  unpacked: [{file: x.npz, between: [1, 5]}]\n"
        "photos:\n  title: t\n  images: 3\n  subset: 2\n  downloads: [{file: p.tar}]\n"
        "  folders: [Photos, Photos/test]\n");
    manifest = read_manifest(folder / "m.yaml");
  }

  // "SET PLACE whole" or "SET PLACE not: DETAIL", one a holding.
  std::vector<std::string> found(const std::string& below = "data") const {
    std::vector<std::string> lines;
    for (const Holding& h : find_holdings(folder / below, manifest)) {
      lines.push_back(h.set + " " + h.place + (h.whole ? " whole" : " not: " + h.detail));
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  TemporaryFolder folder;
  Manifest manifest;
};

TEST_F(Holdings, NothingInAnEmptyFolder) {
  folder.put("data/readme.txt", "abc");
  EXPECT_EQ(found(), Lines());
  expect_error([&] { found("none"); }, {"none", "no such folder"});
  expect_error([&] { found("m.yaml"); }, {"is a file"});
}

TEST_F(Holdings, DownloadsByNameSizeAndChecksum) {
  folder.put("data/f.tar", "abc");
  EXPECT_EQ(found(), Lines{"files f.tar whole"});
  folder.put("data/f.tar", "ab");
  EXPECT_EQ(found(), Lines{"files f.tar not: has 2 bytes, expected 3"});
  folder.put("data/f.tar", "abC");
  ASSERT_EQ(found().size(), 1u);
  if (checksum(folder / "m.yaml", "md5")) {
    EXPECT_NE(found()[0].find("not: has md5:"), std::string::npos);
  }
  folder.put("data/deep/er/f.tar.part", "a");
  EXPECT_EQ(found().back(), "files deep/er/f.tar.part not: download stopped at 1 of 3 bytes");
}

TEST_F(Holdings, UnpackedFilesOfOneFolder) {
  folder.put("data/any name/a.bin", "abc");
  folder.put("data/any name/b.bin", "xx");
  EXPECT_EQ(found(), Lines{"files any name whole"});
  EXPECT_EQ(found("data/any name"), Lines{"files . whole"});
  folder.put("data/any name/b.bin", "x");
  ASSERT_EQ(found().size(), 1u);
  EXPECT_NE(found()[0].find("2 of 2 files"), std::string::npos);
  EXPECT_NE(found()[0].find("damaged: b.bin has 1 bytes, expected 2"), std::string::npos);
  std::filesystem::remove(folder / "data/any name/a.bin");
  EXPECT_NE(found()[0].find("1 of 2 files, checksums unknown, missing a.bin"), std::string::npos);
}

TEST_F(Holdings, SetsWithTheSameNamesAreToldApartBySize) {
  folder.put("data/x.npz", std::string(15, 'x'));
  EXPECT_EQ(found(), Lines{"large . whole"});
  folder.put("data/x.npz", std::string(5, 'x'));
  EXPECT_EQ(found(), Lines{"small . whole"});
  folder.put("data/x.npz", std::string(7, 'x'));
  EXPECT_EQ(found(), Lines());
}

// As git-annex and the like leave them.
TEST_F(Holdings, LinksToNowhereAreNotWholeAndHideNothing) {
  const auto link = [&](const char* name) {
    fs::create_symlink("../.git/annex/objects/none", folder / "data/annex/" + name);
  };
  folder.put("data/f.tar", "abc");
  fs::create_directory(folder / "data/annex");
  for (const char* name : {"f.tar", "b.bin", "x.npz", "f.tar.part"}) link(name);
  const std::string gone = "is a link to a file that does not exist";
  EXPECT_EQ(found(),
            (Lines{"files f.tar whole", "files annex/f.tar not: " + gone,
                   "files annex/f.tar.part not: cannot be read",
                   "files annex not: 1 of 2 files, checksums unknown, missing a.bin, damaged: b.bin " + gone,
                   // Nothing tells to which of the two it belongs.
                   "large annex not: 1 of 1 files, checksums unknown, damaged: x.npz " + gone,
                   "small annex not: 1 of 1 files, checksums unknown, damaged: x.npz " + gone}));
}

TEST_F(Holdings, OnlyImagesThatAreThereCount) {
  folder.put("data/Photos/1.png", "");
  fs::create_symlink("nowhere.png", folder / "data/Photos/2.png");
  fs::create_symlink("1.png", folder / "data/Photos/3.png");
  EXPECT_EQ(found(), Lines{"photos Photos whole"});  // two of them
  fs::remove(folder / "data/Photos/3.png");
  EXPECT_EQ(found(), Lines{"photos Photos not: 1 of 3 images"});
}

TEST_F(Holdings, LinksThatLeadBackEnd) {
  folder.put("data/a/f.tar", "abc");
  folder.put("data/b/readme.txt", "");
  fs::create_directory_symlink("..", folder / "data/a/up");
  fs::create_directory_symlink(folder.path(), folder / "data/a/top");
  fs::create_directory_symlink(".", folder / "data/a/self");
  fs::create_symlink("f.tar.part", folder / "data/a/f.tar.part");
  EXPECT_EQ(found(), (Lines{"files a/f.tar whole", "files a/f.tar.part not: cannot be read"}));
  fs::remove(folder / "data/a/f.tar.part");
  // Two that lead to each other, seen from both; a link to another folder is followed.
  fs::create_directory_symlink("../b", folder / "data/a/over");
  fs::create_directory_symlink("../a", folder / "data/b/over");
  EXPECT_EQ(found(), (Lines{"files a/f.tar whole", "files b/over/f.tar whole"}));
}

TEST_F(Holdings, WhatMayNotBeReadHidesNothing) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may read everything";
  folder.put("data/f.tar", "abc");
  folder.put("data/other/f.tar", "abc");
  folder.put("data/x.npz", std::string(15, 'x'));
  fs::permissions(folder / "data/f.tar", fs::perms::none);
  fs::permissions(folder / "data/x.npz", fs::perms::none);
  fs::create_directory(folder / "data/closed");
  fs::permissions(folder / "data/closed", fs::perms::none);
  EXPECT_EQ(found(), (Lines{"files f.tar not: cannot be read: Permission denied", "files other/f.tar whole",
                            "large . not: 1 of 1 files, checksums unknown, damaged: x.npz cannot be read: "
                            "Permission denied"}));
  fs::permissions(folder / "data/closed", fs::perms::owner_all);  // so that the folder can be removed
}

TEST_F(Holdings, FoldersOfImagesByTheirCount) {
  folder.put("data/Photos/test/1.jpg", "");
  folder.put("data/Photos/note.txt", "");
  EXPECT_EQ(found(), Lines{"photos Photos not: 1 of 3 images"});
  folder.put("data/Photos/test/2.png", "");
  EXPECT_EQ(found(), Lines{"photos Photos whole"});  // as many as the authors use
  folder.put("data/Photos/more/3.JPEG", "");
  EXPECT_EQ(found(), Lines{"photos Photos whole"});
  EXPECT_EQ(found("data/Photos"), Lines{"photos . whole"});
  EXPECT_EQ(found("data/Photos/test"), Lines{"photos . whole"});
  folder.put("data/Photos/test/4.png", "");
  EXPECT_EQ(found(), Lines{"photos Photos not: 4 of 3 images"});
  folder.put("data/MyPhotos/1.png", "");  // another folder
  EXPECT_EQ(found().size(), 1u);
}

}  // namespace
}  // namespace poem
