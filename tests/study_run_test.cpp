// What a study refuses before it trains, and the processes that it trains with.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "core/file.h"
#include "core/lock.h"
#include "core/runtime.h"
#include "expect_error.h"
#include "flat_base.h"
#include "study/study_children.h"
#include "study/study_run.h"
#include "temporary_folder.h"

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
}

TEST(StudyRun, ThePapersStudiesNameTheDataThatIsNotThere) {
  const TemporaryFolder folder;
  const fs::path configs = fs::path(__FILE__).parent_path().parent_path() / "configs/study";
  for (const auto& entry : fs::directory_iterator(configs)) {
    if (entry.path().stem().string().find("-demo") != std::string::npos) continue;
    Study study = read_study(entry.path().string());
    study.set.push_back("data.train=" + folder / "absent/train.bin");  // wherever the tests are run
    StudyOptions options;
    options.out = folder / "out";
    expect_error([&] { run_study(study, options); },
                 {entry.path().filename().string(), "seed 0", "absent/train.bin", "check the path"});
    EXPECT_FALSE(fs::exists(options.out)) << entry.path();
  }
}

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

TEST(StudyRun, ASecondProcessIsKeptOut) {
  const TemporaryFolder folder;
  run_with(folder, "", folder / "out");
  const std::string before = read_file(folder / "out/results.json");
  const Lock other(folder / "out");
  expect_error([&] { run_with(folder, "train.epochs: 3", folder / "out"); }, {"out", "another process"});
  EXPECT_EQ(read_file(folder / "out/results.json"), before);
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
  catch_interrupts();
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace
}  // namespace poem
