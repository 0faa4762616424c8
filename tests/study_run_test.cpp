// What a study refuses before it trains, and the processes that it trains with.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/file.h"
#include "core/interrupts.h"
#include "encode_images.h"
#include "expect_error.h"
#include "flat_base.h"
#include "readers/packed.h"
#include "release_interrupts.h"
#include "study/claims.h"
#include "study/study_children.h"
#include "study/study_run.h"
#include "temporary_folder.h"
#include "write_mat.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

// A study of two methods; the second has `set`. Its trainings are /bin/false.
StudyResults run_with(const TemporaryFolder& folder, const std::string& set, const std::string& out) {
  folder.put("base.yaml", kFlatBase);
  folder.put("study.yaml",
             "title: A study\nbase: base.yaml\nseeds: [0]\nmethods:\n  - {name: A}\n  - {name: B, set: {" +
                 set + "}}\n");
  StudyOptions options;
  options.out = out;
  options.program = {"/bin/false"};
  return run_study(read_study(folder / "study.yaml"), options);
}

TEST(StudyRun, ACellThatCannotRunIsAnErrorBeforeTheFirstTraining) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& set, std::vector<std::string> words) {
    words.insert(words.end(), {"study.yaml", "B, seed 0"});
    expect_error([&] { run_with(folder, set, folder / "out"); }, words);
    EXPECT_FALSE(fs::exists(folder / "out")) << set;
  };
  expect_refused("data.train: nowhere.bin", {"nowhere.bin", "check the path"});
  expect_refused("data.outliers: nowhere.poem", {"nowhere.poem", "check the path"});
  expect_refused("data.test: nowhere.bin", {"nowhere.bin", "check the path"});
  expect_refused("data.ood: [a=nowhere.bin]", {"nowhere.bin", "check the path"});
  expect_refused("data.ood: [a=world:digits:4]", {"3 channels"});
  expect_refused("data.ood: [a=world2d:nothing:4]", {"world2d:nothing"});
  expect_refused("data.train: 'world2d:outliers:60'", {"no labels"});
  expect_refused("mining.select: 500", {"mining.select", "raise mining.pool"});
  expect_refused("network: {name: wideresnet, depth: 11}", {"11"});
  expect_refused("score: nothing", {"'nothing'"});
  expect_refused("train.precision: bf16", {"train.precision", "bf16", "GPU", "float32"});
}

// Those that need data.
std::vector<fs::path> papers_studies() {
  std::vector<fs::path> files;
  const fs::path configs = fs::path(__FILE__).parent_path().parent_path() / "configs/study";
  for (const auto& entry : fs::directory_iterator(configs)) {
    if (entry.path().stem().string().find("-demo") == std::string::npos) files.push_back(entry.path());
  }
  return files;
}

TEST(StudyRun, ThePapersStudiesNameTheDataThatIsNotThere) {
  const TemporaryFolder folder;
  for (const fs::path& file : papers_studies()) {
    Study study = read_study(file.string());
    study.set.push_back("data.train=" + folder / "absent/train.bin");  // wherever the tests are run
    StudyOptions options;
    options.out = folder / "out";
    expect_error([&] { run_study(study, options); },
                 {file.filename().string(), "seed 0", "absent/train.bin", "check the path"});
    EXPECT_FALSE(fs::exists(options.out)) << file;
  }
}

#ifdef POEM_HAS_MATIO

// So many black images with the labels 0, 1, … as the binary versions of CIFAR have them.
std::string cifar(int64_t images, int64_t label_bytes, int64_t classes) {
  const at::Tensor records = at::zeros({images, label_bytes + 3 * 32 * 32}, at::kByte);
  records.select(1, label_bytes - 1).copy_(at::arange(images).remainder(classes));
  return {static_cast<const char*>(records.data_ptr()), static_cast<size_t>(records.numel())};
}

// Stand-ins for the data sets, in their formats and at the places that configs/cifar10-poem.yaml,
// configs/cifar10.yaml and the studies name, with as many images as these ask for.
void put_data(const TemporaryFolder& folder) {
  for (const char* batch : {"data_batch_1.bin", "test_batch.bin"})
    folder.put(std::string("data/cifar-10-batches-bin/") + batch, cifar(1000, 1, 10));
  for (const char* part : {"train.bin", "test.bin"})
    folder.put(std::string("data/cifar-100-binary/") + part, cifar(1000, 2, 100));
  PackedWriter writer(folder / "data/imagenet-64.poem");
  writer.add(random_bytes({20, 3, 64, 64}, 1));
  writer.finish({});
  folder.put("data/tiny_images.bin", std::string(20 * 3 * 32 * 32, 'x'));
  folder.put("data/80mn_cifar_idxs.txt", "1\n20\n");
  const std::string one_of_28x28("\0\0\x08\x03\0\0\0\x01\0\0\0\x1c\0\0\0\x1c", 16);
  folder.put("data/mnist/t10k-images-idx3-ubyte.gz", one_of_28x28 + std::string(28 * 28, 'x'));
  const std::string jpeg = encode_jpeg(at::zeros({32, 32, 3}, at::kByte));
  for (const char* image : {"dtd/images/banded/banded_0002.jpg", "dtd/images/woven/woven_0001.jpg",
                            "LSUN/test/0.jpg", "LSUN_resize/LSUN_resize/0.jpg", "iSUN/iSUN_patches/0.jpeg"})
    folder.put(std::string("data/") + image, jpeg);
  const std::string places = "data/places365/test_256/";
  folder.put(places + "0.jpg", jpeg);
  for (int i = 1; i < 10000; ++i)
    fs::create_hard_link(folder / (places + "0.jpg"), folder / (places + std::to_string(i) + ".jpg"));
  fs::create_directories(folder / "data/svhn");
  Mat{folder / "data/svhn/test_32x32.mat"}.write(random_bytes({20, 3, 32, 32}, 3),
                                                 at::arange(1, 11, at::kByte).repeat({2}));
}

TEST(StudyRun, ThePapersStudiesStartTheirTrainingsOnceTheDataIsThere) {
  const TemporaryFolder folder;
  put_data(folder);
  for (const fs::path& file : papers_studies()) {
    Study study = read_study(file.string());
    study.seeds = {0};
    study.set.push_back("data.folder=" + folder.path());
    study.set.push_back("network.depth=10");  // nothing is trained, so depth only costs time
    StudyOptions options;
    options.out = folder / file.stem().string();
    options.program = {"/bin/false"};
    const StudyResults results = run_study(study, options);
    EXPECT_EQ(results.missing.size(), study.settings.size() * study.methods.size()) << file;
    for (const MissingCell& cell : results.missing) {
      EXPECT_NE(cell.failure.find("training ended with exit code 1"), std::string::npos)
          << file << ": " << cell.failure;
    }
  }
}

#endif

TEST(StudyRun, AFolderOfSomethingElseIsNeverTouched) {
  const TemporaryFolder folder;
  folder.put("foreign/letter", "precious");
  expect_error([&] { run_with(folder, "", folder / "foreign"); }, {"foreign", "never replaced"});
  EXPECT_EQ(read_file(folder / "foreign/letter"), "precious");
}

TEST(StudyRun, TrainingsThatFailAreNamedAndTheTablesSaySo) {
  const TemporaryFolder folder;
  const StudyResults results = run_with(folder, "train.epochs: 3", folder / "out");
  EXPECT_TRUE(results.cells.empty());
  ASSERT_EQ(results.missing.size(), 2) << "the second was tried too";
  for (const MissingCell& cell : results.missing) {
    EXPECT_NE(cell.failure.find("exit code 1"), std::string::npos) << cell.failure;
    EXPECT_NE(cell.failure.find("logs/energy-thompson-seed0"), std::string::npos) << cell.failure;
  }
  const std::string table = read_file(folder / "out/table.md");
  EXPECT_NE(table.find("| A | failed | failed |"), std::string::npos) << table;
  EXPECT_NE(table.find("Failed: A, seed 0; B, seed 0."), std::string::npos) << table;
}

TEST(StudyRun, AnotherStudyIsKeptOut) {
  const TemporaryFolder folder;
  run_with(folder, "", folder / "out");
  const std::string before = read_file(folder / "out/results.json");
  Claims other(folder / "out/claims", "title: Another study");
  expect_error([&] { run_with(folder, "train.epochs: 3", folder / "out"); },
               {"out", "in use by another study"});
  EXPECT_EQ(read_file(folder / "out/results.json"), before);
}

// Six networks, three at a time, on two GPUs: no GPU has more than two of them.
TEST(StudyRun, SpreadsNetworksOverTheGpus) {
  const TemporaryFolder folder;
  folder.put("base.yaml", kFlatBase);
  folder.put("study.yaml",
             "title: A study\nbase: base.yaml\nseeds: [0, 1, 2]\nmethods:\n  - {name: A}\n"
             "  - {name: B, set: {train.epochs: 3}}\n");
  StudyOptions options;
  options.out = folder / "out";
  options.jobs = 3;
  options.device = at::kCUDA;
  options.program = {"/bin/sh", "-c", "echo GPU $CUDA_VISIBLE_DEVICES; sleep 0.2; exit 1"};
  ::setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5", 1);
  const StudyResults results = run_study(read_study(folder / "study.yaml"), options);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  std::map<std::string, int> used;
  for (const auto& log : fs::directory_iterator(folder / "out/logs")) ++used[read_file(log.path().string())];
  EXPECT_EQ(used.size(), 2);
  EXPECT_GE(used["GPU 3\n"], 2);
  EXPECT_GE(used["GPU GPU-5\n"], 2);
  EXPECT_EQ(used["GPU 3\n"] + used["GPU GPU-5\n"], 6);
}

TEST(Children, TellHowTheyEndedAndLogWhatTheyPrint) {
  const TemporaryFolder folder;
  Children children;
  children.start(7, {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, folder / "log");
  const auto [id, code] = children.wait();
  EXPECT_EQ(id, 7);
  EXPECT_EQ(code, 3);
  EXPECT_EQ(read_file(folder / "log"), "out\nerr\n");
  children.start(1, {"/bin/sh", "-c", "kill -9 $$"}, folder / "log");
  EXPECT_EQ(children.wait().code, 128 + SIGKILL);
  children.start(2, {"/no/such/program"}, folder / "log");
  EXPECT_EQ(children.wait().code, 127);
  EXPECT_EQ(children.running(), 0);
}

TEST(Children, RunSideBySide) {
  const TemporaryFolder folder;
  Children children;  // each waits for the other's file
  for (const auto& [mine, other] : {std::pair{"a", "b"}, {"b", "a"}}) {
    children.start(0,
                   {"/bin/sh", "-c",
                    std::string("touch ") + (folder / mine) + "; while [ ! -e " + (folder / other) +
                        " ]; do sleep 0.01; done"},
                   folder / "log");
  }
  EXPECT_EQ(children.running(), 2);
  EXPECT_EQ(children.wait().code, 0);
  EXPECT_EQ(children.wait().code, 0);
}

TEST(Children, AreStoppedByCtrlC) {
  const TemporaryFolder folder;
  catch_interrupts();
  {
    Children children;
    children.start(0, {"/bin/sleep", "1000"}, folder / "log");
    std::raise(SIGINT);
    EXPECT_THROW(children.wait(), Interrupted);
  }  // ends at once, not after 1000 s
  release_interrupts();
}

}  // namespace
}  // namespace poem
