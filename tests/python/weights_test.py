"""Training from the weights of PyTorch: torchvision's networks and those of the authors' code family, and files that are
refused. What the program reads, torch.save writes here."""

import io
import os
import pickle
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

import numpy as np
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
CLASSES = 8  # of the embedded world
CONFIG = """
data: {{train: "world:train:32", size: {size}, validation: 0.25}}
network: {{{network}, init: {init}, mean: {mean}, std: {std}}}
objective: {{name: cross_entropy}}
mining: {{miner: none}}
train: {{epochs: 1, batch: 24, learning_rate: 0, freeze: backbone}}
"""


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(F.relu(self.bn1(x)))
        return torch.cat([x, self.conv2(F.relu(self.bn2(y)))], 1)


class Transition(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, channels // 2, 1, bias=False)

    def forward(self, x):
        return F.avg_pool2d(self.conv1(F.relu(self.bn1(x))), 2)


class Block(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layer = nn.Sequential(*layers)

    def forward(self, x):
        return self.layer(x)


class DenseNet(nn.Module):
    """DenseNet-BC under the names of the authors' code."""

    def __init__(self, layers, growth):
        super().__init__()
        channels = 2 * growth
        self.conv1 = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        for number in (1, 2, 3):
            setattr(self, f"block{number}", Block(DenseLayer(channels + i * growth, growth) for i in range(layers)))
            channels += layers * growth
            if number < 3:
                setattr(self, f"trans{number}", Transition(channels))
                channels //= 2
        self.bn1, self.fc = nn.BatchNorm2d(channels), nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.trans1(self.block1(self.conv1(x)))
        x = F.relu(self.bn1(self.block3(self.trans2(self.block2(x)))))
        return self.fc(x.mean((2, 3)))


class WideLayer(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(out), nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.convShortcut = None if channels == out else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x):
        active = F.relu(self.bn1(x))
        y = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return y + (x if self.convShortcut is None else self.convShortcut(active))


class WideResNet(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        widths = [16, 16 * width, 32 * width, 64 * width]
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        for i in (1, 2, 3):
            first = WideLayer(widths[i - 1], widths[i], 1 if i == 1 else 2)
            rest = [WideLayer(widths[i], widths[i], 1) for _ in range(layers - 1)]
            setattr(self, f"block{i}", Block([first, *rest]))
        self.bn1, self.fc = nn.BatchNorm2d(widths[3]), nn.Linear(widths[3], CLASSES)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))


def randomised(model):
    """Statistics, scales and shifts that no fresh network has."""
    torch.manual_seed(3)
    for name, tensor in model.state_dict().items():
        if name.endswith(("running_mean", "bias")):
            tensor.normal_(0, 0.2)
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 2)
        elif tensor.dim() == 1:
            tensor.uniform_(0.5, 1.5)
    return model.eval()


class Call:
    """Pickled, it calls what it is told to."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


class Weights(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def poem(self, *arguments):
        command = [os.environ["POEM_PROGRAM"], "--threads", "2", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def write_config(self, network, size=32, init="weights.pth", mean=MEAN, std=STD):
        text = CONFIG.format(network=network, size=size, init=init, mean=mean, std=std)
        (self.folder / "config.yaml").write_text(text)

    def train(self, *arguments):
        done = self.poem("train", "config.yaml", "--out", "run", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def expect_same_outputs(self, model, size):
        """The detector's logits are those of the model, which here computes in float64."""
        images = np.random.default_rng(1).integers(0, 256, (3, size, size, 3), np.uint8)
        np.save(self.folder / "images.npy", images)
        done = self.poem("features", "run", "images.npy", "--out", "out.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        pixels = (torch.from_numpy(images).double() - torch.tensor(MEAN)) / torch.tensor(STD)
        with torch.no_grad():
            expected = model.double()(pixels.permute(0, 3, 1, 2)).numpy()
        logits = np.load(self.folder / "out.npz")["logits"]
        self.assertLess(np.abs(logits - expected).max(), 1e-5 * np.abs(expected).max())

    def check_parity(self, model, network, size=32):
        model = randomised(model)
        torch.save(model.state_dict(), self.folder / "weights.pth")
        self.write_config(network, size)
        tensors = sum("num_batches" not in name for name in model.state_dict())
        self.assertIn(f"network.init: {tensors} of {tensors} tensors from ", self.train())
        self.expect_same_outputs(model, size)

    def test_resnet18(self):
        self.check_parity(torchvision.models.resnet18(num_classes=CLASSES), "name: resnet18_224", 72)

    def test_resnet50(self):
        self.check_parity(torchvision.models.resnet50(num_classes=CLASSES), "name: resnet50", 72)

    def test_authors_densenet(self):
        self.check_parity(DenseNet(layers=2, growth=12), "name: densenet, depth: 16, growth: 12")

    def test_authors_wideresnet(self):
        self.check_parity(WideResNet(layers=2, width=2), "name: wideresnet, depth: 16, width: 2")

    def test_small_images(self):
        """ResNet-18 with the stem for small images, as many repositories have it."""
        model = torchvision.models.resnet18(num_classes=CLASSES)
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
        self.check_parity(model, "name: resnet18")

    def test_checkpoints_of_training_scripts(self):
        """DataParallel, half precision, other strides, more beside the weights, and other classes."""
        model = randomised(WideResNet(layers=1, width=1))
        model.fc = nn.Linear(64, 5)
        state = {"module." + name: tensor.half() for name, tensor in model.state_dict().items()}
        state["module.conv1.weight"] = state["module.conv1.weight"].to(memory_format=torch.channels_last)
        state["module.bn1.weight"] = nn.Parameter(state["module.bn1.weight"])
        optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9).state_dict()
        torch.save(
            {"epoch": 3, "arch": "wrn", "step": torch.tensor(7), "state_dict": state, "optimizer": optimiser},
            self.folder / "weights.pth",
        )
        self.write_config("name: wideresnet, depth: 10, width: 1")
        log = self.train()
        self.assertIn("37 of 39 tensors", log)
        self.assertIn("the file's has 5 outputs, the network has 8; not used: module.fc.bias, module.fc.weight", log)
        # Lightning's prefix.
        lightning = {"model." + name[len("module.") :]: tensor for name, tensor in state.items()}
        torch.save({"state_dict": lightning}, self.folder / "weights.pth")
        self.assertIn("37 of 39 tensors", self.train("--force"))
        # Again from poem's own files.
        for init in ("run/detector.safetensors", "run/checkpoint/state.safetensors"):
            self.assertIn("39 of 39 tensors", self.train("--force", f"--set=network.init={self.copied(init)}"))

    def copied(self, path):
        target = Path(path).name
        (self.folder / target).write_bytes((self.folder / path).read_bytes())
        return target

    def test_trains_and_predicts_at_224(self):
        torch.save(torchvision.models.resnet18().state_dict(), self.folder / "weights.pth")
        self.write_config("name: resnet18_224", size=224)
        self.train("--set=train.freeze=none", "--set=train.learning_rate=0.01", "--set=train.backbone_rate=0.1")
        done = self.poem("predict", "run", "world:test:3", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 4, done.stdout)

    def test_a_resumed_run_needs_no_file(self):
        torch.save(randomised(WideResNet(1, 1)).state_dict(), self.folder / "weights.pth")
        self.write_config("name: wideresnet, depth: 10, width: 1")
        self.train()
        (self.folder / "weights.pth").unlink()
        done = self.poem("train", "--resume", "run", "--set", "train.epochs=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("network.init", done.stderr)

    def test_warns_of_the_normalisation(self):
        torch.save(torchvision.models.resnet18().state_dict(), self.folder / "weights.pth")
        self.write_config("name: resnet18_224", mean=[125.3, 123.0, 113.9], std=[63.0, 62.1, 66.7])
        log = self.train()
        self.assertIn("expect mean [123.675, 116.28, 103.53] and std [58.395, 57.12, 57.375]", log)
        self.assertIn("the file's has 1000 outputs, the network has 8; not used: fc.bias, fc.weight", log)

    def expect_refused(self, *words):
        done = self.poem("--quiet", "train", "config.yaml", "--out", "run")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse((self.folder / "run").exists())
        self.assertFalse((self.folder / "called").exists())

    def test_executes_nothing(self):
        self.write_config("name: wideresnet, depth: 10, width: 1")
        touch = f"touch {self.folder}/called"
        state = WideResNet(1, 1).state_dict()
        for call, name in (
            (Call(os.system, (touch,)), "posix.system"),
            (Call(eval, (f"open('{self.folder}/called', 'w')",)), ".eval"),
            (Call(getattr, (state, "keys")), ".getattr"),
            (WideResNet(1, 1), "__main__.WideResNet"),  # a whole module
        ):
            for protocol in (2, 4):
                torch.save({"a": call, **state}, self.folder / "weights.pth", pickle_protocol=protocol)
                self.expect_refused("weights.pth", name, "executes nothing", "torch.save(model.state_dict(), FILE)")
        buffer = io.BytesIO()
        pickle.dump({"a": Call(os.system, (touch,))}, buffer)
        (self.folder / "weights.pth").write_bytes(buffer.getvalue())
        self.expect_refused("is a pickle that poem does not read", "you trust", "torch.load(FILE, weights_only=True)")

    def test_damaged_and_foreign_files(self):
        self.write_config("name: wideresnet, depth: 10, width: 1")
        path, model = self.folder / "weights.pth", randomised(WideResNet(1, 1))
        self.expect_refused("network.init", "neither he nor authors nor a file", "data.folder")
        torch.save(model.state_dict(), path, _use_new_zipfile_serialization=False)
        self.expect_refused("weights.pth", "is a pickle", "before 1.6")
        torch.save(model.state_dict(), path)
        path.write_bytes(path.read_bytes()[:-100])
        self.expect_refused("weights.pth", "zip")
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("archive/data.pkl", pickle.dumps({"conv1.weight": 3}, 2))
        self.expect_refused("weights.pth", "not a state dict")
        torch.save(torchvision.models.resnet18().state_dict(), path)
        self.expect_refused("weights.pth", "wideresnet", "torchvision's ResNet-18")
        torch.save(WideResNet(2, 1).state_dict(), path)
        self.expect_refused("block1.layer.1.bn1.bias has no place")
        state = model.state_dict()
        for tensor, words in (
            (torch.zeros(3), "has shape [3], expected [64]"),
            (torch.zeros(64, dtype=torch.long), "int64"),
            (torch.full((64,), float("nan")), "not finite"),
            (torch.zeros(64, dtype=torch.cfloat), "torch.ComplexFloatStorage"),
        ):
            torch.save({**state, "bn1.weight": tensor}, path)
            self.expect_refused("weights.pth", words)
        torch.save({**state, "bn1.running_var": torch.full((64,), -1.0)}, path)
        self.expect_refused("weights.pth", "bn1.running_var", "negative variance")
        self.write_config("name: mlp", init="he")
        self.expect_refused("config.yaml", "train.freeze", "random", "network.init")


if __name__ == "__main__":
    unittest.main()
