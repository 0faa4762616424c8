// A classifier in two halves: features φ(x), and logits from features. The input is raw pixels (0 … 255);
// normalisation is part of the network, so a detector needs no other preprocessing.
//
//   NetworkSpec spec;
//   spec.name = "resnet18";
//   std::unique_ptr<Network> network = make_network(spec, /*seed=*/7);
//   network->train(false);
//   at::Tensor logits = network->logits(network->features(images));   // n×C×H×W → n×classes
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace poem {

struct TensorFile;

// Where the tensors of a network come from. A new network draws them from the seed. A stored network copies
// them from a file, and each must have the shape and type that the network's NetworkSpec asks for. This is
// checked before the tensor is allocated, so a damaged spec that describes a huge network takes no memory.
struct Weights {
  Weights(uint64_t seed) : seed(seed) {}  // implicit: make_network(spec, 7)
  Weights(const TensorFile& file, std::string prefix) : file(&file), prefix(std::move(prefix)) {}

  // Tensors that have shapes but take no memory, enough to find out how much memory a network would take.
  static Weights none() {
    Weights weights(0);
    weights.shapes = true;
    return weights;
  }

  uint64_t seed = 0;
  bool shapes = false;
  const TensorFile* file = nullptr;  // its tensors under `prefix`; used only while the network is made
  std::string prefix;
};

// How the weights of convolutions are drawn: N(0, sqrt(2 / (k² out))), or N(0, sqrt(2 / layers per block)) as
// the paper's authors did (densenet only).
enum class Initialisation { kHe, kAuthors };

// What follows the features: one linear layer; two layers; or one layer mixed with two densities of the
// pixels, whose log-likelihoods are the last two outputs.
enum class HeadKind { kLinear, kProjection, kDensity };

// All that is needed to build a network again; saved with every detector.
struct NetworkSpec {
  std::string name = "densenet";           // one of network_names()
  int64_t depth = 100;                     // densenet and wideresnet: 6n+4
  int64_t growth = 12;                     // densenet
  int64_t width = 1;                       // wideresnet: widening factor
  std::vector<int64_t> hidden = {64, 64};  // mlp
  Initialisation init = Initialisation::kHe;
  int64_t channels = 3;  // of the input
  int64_t pixels = 1;    // mlp: height · width of the input
  HeadKind head = HeadKind::kLinear;
  int64_t components = 100;                          // density: Gaussians per mixture
  double density_rate = 1e-5;                        // density: the mixtures' learning rate
  int64_t classes = 10;                              // outputs
  std::vector<double> mean = {125.3, 123.0, 113.9};  // subtracted from the pixels, one value per channel
  std::vector<double> std = {63.0, 62.1, 66.7};      // then the pixels are divided by it
};

class Network {
 public:
  virtual ~Network() = default;

  // n×C×H×W, uint8 or float32, any H and W that the depth allows → float32, one row per image: φ(x), followed
  // by what else logits() needs (only with head "density").
  virtual at::Tensor features(const at::Tensor& images) = 0;
  // The result of features() → n×classes.
  virtual at::Tensor logits(const at::Tensor& features) = 0;
  virtual int64_t feature_count() const = 0;  // m, of φ(x) alone
  // The outputs of the stem and of each stage, averaged over space, then the features: n×c each.
  // Differentiable in float32 images.
  virtual std::vector<at::Tensor> layers(const at::Tensor& images) = 0;

  // The network's own tensors: writing to them changes the network. They need not be contiguous.
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  virtual Named parameters() const = 0;  // trained by gradient descent
  virtual Named buffers() const = 0;     // BatchNorm's running statistics
  virtual void train(bool on) = 0;       // true: BatchNorm uses the batch; false: the running statistics
  virtual void to(const at::Device& device) = 0;
  // From now on only what follows the features is trained: in train mode, features() has no gradient and
  // BatchNorm uses its running statistics, which stay as they are.
  virtual void freeze_backbone() = 0;
  // Compute in bfloat16 if the device is a GPU. Weights, statistics, features and logits stay float32.
  virtual void use_bf16(bool on) = 0;

  // For networks that learn something besides gradient descent: from images before the first step, and after
  // each step. Today that is the density head of CCU. With these hooks the training loop need not know it.
  virtual bool prepares() const { return false; }
  virtual void prepare(const at::Tensor& /*id_images*/, const at::Tensor& /*outlier_images*/) {}
  virtual void after_step() {}

  const NetworkSpec& spec() const { return spec_; }
  bool classifies() const {
    return spec_.head != HeadKind::kProjection;
  }  // the first outputs belong to the classes

 protected:
  explicit Network(NetworkSpec spec) : spec_(std::move(spec)) {}
  NetworkSpec spec_;
};

// Weights are drawn from Stream(seed, "init", parameter index); only the last layer's depend on the number of
// outputs. BatchNorm starts at weight 1 and bias 0, linear layers uniform in ±1/sqrt(inputs) and bias 0. A
// new network is in train mode. An unknown name or an impossible depth is a poem::Error, and so is a tensor
// that the file does not have in the network's shape.
std::unique_ptr<Network> make_network(const NetworkSpec& spec, const Weights& weights);
std::vector<std::string> network_names();

// What import_weights() did, in words.
struct Imported {
  // "60 of 62 tensors from FILE; the last layer starts anew: the file's has 9 outputs, the network has 6; not
  // used: fc.bias, fc.weight"
  std::string report;
  std::string warning;  // what the weights need besides; usually empty
};

// Copies weights from a .safetensors file or a state dict that PyTorch saved (.pth), in which nothing is
// executed. The names are poem's own (a detector or a checkpoint), torchvision's (ResNets), or those of the
// DenseNet and WideResNet of the paper's authors. The last layer stays as it is if the file has none, or one
// with another number of outputs, or of other classes: a detector names them, and `class_names` are those of
// the first outputs (empty: any). An Error if anything else differs; the network is then unchanged.
Imported import_weights(Network& network, const std::string& path,
                        const std::vector<std::string>& class_names = {});

}  // namespace poem
