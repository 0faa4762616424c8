// What a study refuses before it trains, and the processes that it trains with.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "core/file.h"
#include "core/runtime.h"
#include "expect_error.h"
#include "study/study_children.h"
#include "study/study_run.h"
#include "temporary_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBase = R"(
data:
  train: world2d:train:60
  test: world2d:test:30
  outliers: world2d:outliers:60
  ood: [ring=world2d:ood:20]
  size: 1
network: {name: mlp, mean: [0, 0], std: [1, 1]}
mining: {pool: 60, select: 30}
)";

// A study of two methods; the second has `set`. Its trainings are /bin/false.
void run_with(const TemporaryFolder& folder, const std::string& set, const std::string& out) {
  folder.put("base.yaml", kBase);
  folder.put("study.yaml",
             "title: A study\nbase: base.yaml\nseeds: [0]\nmethods:\n  - {name: A}\n  - {name: B, set: {" +
                 set + "}}\n");
  StudyOptions options;
  options.out = out;
  options.program = {"/bin/false"};
  run_study(read_study(folder / "study.yaml"), options);
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

TEST(StudyRun, AFolderOfSomethingElseIsNeverTouched) {
  const TemporaryFolder folder;
  folder.put("foreign/letter", "precious");
  expect_error([&] { run_with(folder, "", folder / "foreign"); }, {"foreign", "never replaced"});
  EXPECT_EQ(read_file(folder / "foreign/letter"), "precious");
}

TEST(StudyRun, ATrainingThatFailsIsNamed) {
  const TemporaryFolder folder;
  expect_error([&] { run_with(folder, "train.epochs: 3", folder / "out"); },
               {"study.yaml", "A, seed 0", "exit code 1", "logs/energy-thompson-seed0"});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "out/runs"), {}), 2) << "the other was tried too";
  EXPECT_FALSE(fs::exists(folder / "out/table.md"));
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
