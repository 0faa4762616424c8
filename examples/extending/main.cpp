// Adds an objective, a miner, a score and a reader to poem, and trains with them.
//
//   extending extending.yaml runs/extending
#include <ATen/ATen.h>
#include <poem/detector.h>
#include <poem/error.h>
#include <poem/mining.h>
#include <poem/objective.h>
#include <poem/read.h>
#include <poem/reader.h>
#include <poem/results.h>
#include <poem/runtime.h>
#include <poem/scores.h>
#include <poem/training.h>

#include <cstdio>
#include <fstream>

namespace {

// Cross-entropy on logits of fixed length, CE(z / (τ ‖z‖)) as in LogitNorm (Wei et al. 2022), so
// that the network cannot become more confident just by scaling its logits. Outliers are trained towards
// equal outputs.
class FixedLength : public poem::Objective {
 public:
  explicit FixedLength(const poem::ObjectiveSettings& settings)
      : temperature_(settings.temperature), beta_(*settings.beta) {}

  poem::Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels,
                        const at::Tensor& outlier_logits, const at::Tensor&) const override {
    const at::Tensor id_loss = at::cross_entropy_loss(scaled(id_logits), labels);
    const at::Tensor outlier_loss = poem::mean_of(-scaled(outlier_logits).log_softmax(1).mean(1));
    return {id_loss + beta_ * outlier_loss, id_loss.detach(), outlier_loss.detach()};
  }

 private:
  at::Tensor scaled(const at::Tensor& logits) const {
    return logits / (temperature_ * logits.norm(2, 1, /*keepdim=*/true).clamp_min(1e-7));
  }

  double temperature_, beta_;
};

// The outliers that the network is most confident about.
class Confident : public poem::Miner {
 public:
  poem::PoolScores score(const poem::MiningTask& task) const override {
    poem::PoolScores scores;  // one rank per outlier of the pool; the pool comes in blocks
    task.network.features(task.pool, [&](int64_t, const at::Tensor& features) {
      const at::Tensor confidence = std::get<0>(task.network.logits(features).softmax(1).max(1));
      for (const float rank : poem::to_floats(confidence.cpu())) scores.rank.push_back(rank);
    });
    return scores;
  }
};

// Minus the distance to the mean μ of the training features, −‖φ(x) − μ‖.
class Centre : public poem::Score {
 public:
  void fit(const poem::Training& training) override { mean_ = training.features.mean(0); }

  at::Tensor operator()(const poem::Batch& batch) const override {
    return -(batch.features - mean_).norm(2, 1);
  }

 private:
  State state() override { return {{"mean", &mean_}}; }  // saved with the detector

  at::Tensor mean_;
};

// Binary PPM files of one or more images.
bool accepts_ppm(const std::string& path) {
  return path.size() > 4 && path.compare(path.size() - 4, 4, ".ppm") == 0;
}

poem::Labels visit_ppm(const std::string& path, const poem::ReadOptions&, const poem::Sink& sink) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  for (int64_t width, height, most; file >> magic >> width >> height >> most;) {
    if (magic != "P6" || width < 1 || height < 1 || most != 255)
      throw poem::Error(path, "is not a PPM file of 8 bits", "convert it");
    file.get();  // the line feed after the header
    at::Tensor pixels = at::empty({height, width, 3}, at::kByte);
    if (!file.read(reinterpret_cast<char*>(pixels.data_ptr<uint8_t>()), pixels.numel()))
      throw poem::Error(path, "ends inside of an image", "copy it again");
    sink(pixels.permute({2, 0, 1}).unsqueeze(0).contiguous());  // 1×3×H×W
  }
  return {};  // no labels
}

// Before anything is read or trained.
void register_all() {
  poem::Published published;
  published.beta = 0.5;
  poem::register_objective(
      "fixed_length",
      [](const poem::ObjectiveSettings& settings) { return std::make_unique<FixedLength>(settings); },
      published);
  poem::register_miner("confident", [] { return std::make_unique<Confident>(); });
  poem::register_score(
      "centre", [] { return std::make_unique<Centre>(); }, poem::kTraining);
  poem::register_reader({"portable pixmaps (.ppm)", accepts_ppm, visit_ppm});
}

// The outliers of the drawn world as a PPM file, since this example has no images of its own.
void write_outliers(const std::string& path) {
  const poem::ImageSet images = poem::read_images("world:outliers:200");
  std::ofstream file(path, std::ios::binary);
  for (int64_t i = 0; i < images.size(); ++i) {
    const at::Tensor rgb = images.pixels[images.row(i)].permute({1, 2, 0}).contiguous();
    file << "P6\n" << images.width() << ' ' << images.height() << "\n255\n";
    file.write(reinterpret_cast<const char*>(rgb.data_ptr<uint8_t>()), rgb.numel());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: extending CONFIG RUN\n");
    return 2;
  }
  try {
    poem::set_up_logging(/*quiet=*/false);
    register_all();
    write_outliers("outliers.ppm");
    const poem::Config config = poem::read_config(argv[1], {});
    const poem::RunOutcome outcome = poem::start_run(config, argv[2], /*force=*/false, at::kCPU);
    if (outcome.results) std::printf("%s", poem::to_table(*outcome.results).c_str());
    const poem::Detector detector = poem::Detector::load(poem::detector_path(argv[2]));
    int unknown = 0;
    for (const poem::Verdict& verdict : detector.judge(poem::read_images("outliers.ppm")))
      unknown += !verdict.known;
    std::printf("%d of the outliers are unknown to score %s\n", unknown, detector.score->name().c_str());
    return 0;
  } catch (const poem::Error& error) {
    std::fprintf(stderr, "extending: %s\n", error.what());
    return 2;
  }
}
