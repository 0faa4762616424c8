#include "core/state_dict.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/pickle.h"
#include "core/text.h"
#include "core/zip.h"
#include "expect_error.h"
#include "poem/random.h"
#include "temporary_folder.h"

namespace poem {
namespace {

using Bytes = std::string;

// ---- the instructions that Python's pickle module writes ------------------------------------------------

template <class Number>
Bytes raw(Number value) {
  return Bytes(reinterpret_cast<const char*>(&value), sizeof value);
}
Bytes text(const std::string& value) { return "X" + raw(static_cast<uint32_t>(value.size())) + value; }
Bytes whole(int32_t value) { return "J" + raw(value); }
Bytes long_whole(int64_t value) { return "\x8a\x08" + raw(value); }
Bytes name(const std::string& module, const std::string& own) { return "c" + module + "\n" + own + "\n"; }
Bytes tuple(const std::vector<Bytes>& parts) {
  Bytes all = "(";
  for (const Bytes& part : parts) all += part;
  return all + "t";
}
Bytes wholes(const std::vector<int64_t>& values) {
  std::vector<Bytes> parts;
  for (const int64_t value : values) parts.push_back(long_whole(value));
  return tuple(parts);
}
Bytes call(const Bytes& function, const std::vector<Bytes>& arguments) {
  return function + tuple(arguments) + "R";
}
Bytes dict(const std::vector<std::pair<std::string, Bytes>>& entries, const Bytes& empty = "}") {
  Bytes all = empty + "(";
  for (const auto& [key, value] : entries) all += text(key) + value;
  return all + "u";
}
Bytes storage(const std::string& type, const std::string& key, int64_t count) {
  return tuple({text("storage"), name("torch", type), text(key), text("cpu"), long_whole(count)}) + "Q";
}
const Bytes kOrderedDict = name("collections", "OrderedDict") + ")R";

Bytes tensor(const Bytes& elements, int64_t offset, const std::vector<int64_t>& sizes,
             const std::vector<int64_t>& strides) {
  return call(name("torch._utils", "_rebuild_tensor_v2"),
              {elements, long_whole(offset), wholes(sizes), wholes(strides), "\x89", kOrderedDict});
}

Bytes pickled(const Bytes& value) { return "\x80\x02" + value + "."; }

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  return Bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// ---- files ----------------------------------------------------------------------------------------------

class StateDictTest : public testing::Test {
 protected:
  std::string write(const Bytes& pickle, const std::vector<std::pair<std::string, Bytes>>& data = {}) {
    const std::string path = folder_ / "model.pth";
    ZipWriter zip(path);
    zip.add("archive/data.pkl", {pickle});
    for (const auto& [key, bytes] : data) zip.add("archive/" + key, {bytes});
    zip.commit();
    return path;
  }
  TensorFile read(const Bytes& value, const std::vector<std::pair<std::string, Bytes>>& data = {}) {
    return read_state_dict(write(pickled(value), data));
  }
  void expect_refused(const Bytes& value, const std::vector<std::string>& words) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"model.pth", "executes nothing", "torch.save(model.state_dict(), FILE)"});
    expect_error([&] { read(value, {{"data/0", kSix}}); }, all);
  }

  const Bytes kSix = bytes_of<float>({0, 1, 2, 3, 4, 5});
  const Bytes kStorage = storage("FloatStorage", "0", 6);
  const Bytes kMatrix = tensor(kStorage, 0, {2, 3}, {3, 1});
  TemporaryFolder folder_;
};

TEST_F(StateDictTest, TensorsHaveTheirValuesShapesAndTypes) {
  const TensorFile file = read(dict({{"matrix", kMatrix},
                                     {"turned", tensor(kStorage, 0, {3, 2}, {1, 3})},  // shares the storage
                                     {"part", tensor(kStorage, 4, {2}, {1})},
                                     {"repeated", tensor(kStorage, 5, {2, 2}, {0, 0})},
                                     {"number", tensor(kStorage, 3, {}, {})},
                                     {"empty", tensor(kStorage, 6, {0, 4}, {4, 1})},
                                     {"long", tensor(storage("LongStorage", "1", 1), 0, {}, {})},
                                     {"half", tensor(storage("HalfStorage", "2", 2), 0, {2}, {1})},
                                     {"brain", tensor(storage("BFloat16Storage", "2", 2), 0, {2}, {1})},
                                     {"epoch", whole(7)},
                                     {"rate", "G" + Bytes(8, '\0')},
                                     {"nothing", "N"}}),
                               {{"data/0", kSix},
                                {"data/1", bytes_of<int64_t>({int64_t{1} << 40})},
                                {"data/2", bytes_of<uint16_t>({0x3c00, 0xc000})}});  // 1 and −2 as float16
  EXPECT_EQ(file.tensors.size(), 9u);
  const at::Tensor matrix = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_TRUE(file.tensor("matrix").equal(matrix));
  EXPECT_TRUE(file.tensor("turned").equal(matrix.t()));
  EXPECT_TRUE(file.tensor("part").equal(at::tensor({4.f, 5.f})));
  EXPECT_TRUE(file.tensor("repeated").equal(at::full({2, 2}, 5.f)));
  EXPECT_EQ(file.tensor("number").item<float>(), 3);
  EXPECT_EQ(file.tensor("empty").sizes(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(file.tensor("long").item<int64_t>(), int64_t{1} << 40);
  EXPECT_TRUE(file.tensor("half").equal(at::tensor({1.f, -2.f}).to(at::kHalf)));
  EXPECT_EQ(file.tensor("brain").scalar_type(), at::kBFloat16);  // 0x3c00 is 2⁻⁷, 0xc000 is −2
  EXPECT_EQ(file.tensor("brain")[0].item<float>(), 0.0078125f);
}

TEST_F(StateDictTest, FindsTheDictThatTrainingScriptsPutIntoAnother) {
  const Bytes metadata = dict({{"_metadata", dict({{"version", "K\x01"}}, kOrderedDict)}});
  const Bytes state = dict({{"a", kMatrix}}, kOrderedDict) + metadata + "b";
  for (const char* key : {"state_dict", "model_state_dict", "model", "net"}) {
    const TensorFile file =
        read(dict({{"epoch", whole(3)}, {key, state}, {"best", "\x88"}}), {{"data/0", kSix}});
    EXPECT_EQ(file.tensors.size(), 1u) << key;
    EXPECT_TRUE(file.tensor("a").equal(at::arange(6, at::kFloat).view({2, 3}))) << key;
  }
}

TEST_F(StateDictTest, RefusesToChooseBetweenTwoDicts) {
  const Bytes one = dict({{"a", kMatrix}}), other = dict({{"b", kMatrix}});
  const auto read_all = [&](const std::vector<std::pair<std::string, Bytes>>& entries) {
    return read(dict(entries), {{"data/0", kSix}});
  };
  expect_error(
      [&] {
        read_all({{"model", one}, {"net", other}});
      },
      {"model.pth", "has state dicts under 'model' and 'net'", "save one of them"});
  expect_error(
      [&] {
        read_all({{"state_dict", dict({{"net", one}, {"model", other}})}});
      },
      {"has state dicts under 'model' and 'net'"});
  // One dict under two names, settings, an optimiser's state and a running average leave no choice.
  EXPECT_EQ(read_all({{"model", one + "q\x01"}, {"net", "h\x01"}}).tensors.count("a"), 1u);
  const Bytes settings = dict({{"depth", whole(18)}});
  const std::vector<std::pair<std::string, Bytes>> beside = {
      {"state_dict", one}, {"model", settings}, {"optimizer", other}, {"state_dict_ema", other}};
  EXPECT_EQ(read_all(beside).tensors.count("a"), 1u);
  EXPECT_EQ(read_all({beside.rbegin(), beside.rend()}).tensors.count("a"), 1u);
}

TEST_F(StateDictTest, ReadsParametersAndLaterProtocols) {
  const Bytes parameter = call(name("torch._utils", "_rebuild_parameter"), {kMatrix, "\x88", kOrderedDict});
  EXPECT_EQ(read(dict({{"a", parameter}}), {{"data/0", kSix}}).tensor("a").numel(), 6);
  // Protocol 4: a frame, short texts, memoized values, names from the stack.
  const Bytes ordered =
      "\x8c\x0b"
      "collections\x94\x8c\x0bOrderedDict\x94\x93)R";
  const Bytes frame = "\x95" + raw(uint64_t{99});
  EXPECT_EQ(read(frame + dict({{"a", kMatrix}}, ordered), {{"data/0", kSix}}).tensor("a").numel(), 6);
}

TEST_F(StateDictTest, RefusesEveryWayToCallSomething) {
  const Bytes command = tuple({text("touch called")});
  expect_refused(name("os", "system") + command + "R", {"contains os.system"});
  expect_refused(name("posix", "system") + command + "R", {"contains posix.system"});
  expect_refused(text("builtins") + text("eval") + "\x93" + command + "R", {"contains builtins.eval"});
  expect_refused("(" + text("touch called") + "ios\nsystem\n", {"INST"});
  expect_refused("(" + text("x") + "o", {"OBJ"});
  expect_refused(dict({}) + tuple({}) + "\x81", {"NEWOBJ"});
  expect_refused(dict({}) + tuple({}) + "}\x92", {"NEWOBJ_EX"});
  expect_refused("\x82\x01", {"EXT1"});
  expect_refused("Pos.system\n", {"0x50"});
  expect_refused(name("torch._utils", "_rebuild_tensor"), {"contains torch._utils._rebuild_tensor"});
  expect_refused(name("torchvision.models.resnet", "ResNet"), {"torchvision.models.resnet.ResNet"});
  expect_refused(name("collections", "OrderedDict\x01"), {"contains collections.OrderedDict?"});
  expect_refused(text("os.system") + command + "R", {"calls something that is not a name"});
  expect_refused(name("torch", "FloatStorage") + dict({{"__setstate__", text("x")}}) + "b",
                 {"sets attributes"});
  expect_refused(kMatrix + dict({{"__class__", text("x")}}) + "b", {"sets attributes"});
}

TEST_F(StateDictTest, RefusesWhatIsNotADictOfTensors) {
  for (const Bytes& value : {whole(3), kMatrix, tuple({kMatrix}), dict({}), dict({{"epoch", whole(3)}}),
                             dict({{"model", whole(3)}}), dict({{"layers", dict({{"a", kMatrix}})}})})
    expect_error([&] { read(value, {{"data/0", kSix}}); }, {"model.pth", "not a state dict", "torch.save"});
  // A dict that contains itself, and often.
  const Bytes circle = Bytes("}q\x01") + text("model") + "h\x01s";
  expect_error([&] { read(circle); }, {"not a state dict"});
  Bytes circles = "}q\x01" + text("model") + "q\x02" + "h\x01s";
  for (int i = 0; i < 10000; ++i) circles += "h\x02h\x01s";
  expect_error([&] { read(circles); }, {"not a state dict"});
}

TEST_F(StateDictTest, RefusesTensorsBeyondTheirStorage) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const auto expect_bad = [&](const Bytes& value, const std::string& words) {
    expect_error([&] { read(dict({{"w", value}}), {{"data/0", kSix}}); }, {"model.pth", words});
  };
  expect_bad(tensor(kStorage, 0, {7}, {1}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, 1, {6}, {1}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, 6, {}, {}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, 7, {0}, {1}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, 0, {2, 3}, {4, 1}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, 0, {3, 5}, {kHuge, kHuge}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, 0, {kHuge, kHuge}, {0, 0}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, kHuge, {2}, {kHuge}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, 0, {2, 3}, {1}), "'w' lies beyond its storage");
  expect_bad(tensor(kStorage, -1, {2}, {1}), "'w' has an impossible shape or offset");
  expect_bad(tensor(kStorage, 5, {6}, {-1}), "'w' has an impossible shape or offset");
  expect_bad(tensor(kStorage, 0, {-2, -3}, {1, 1}), "'w' has an impossible shape or offset");
  expect_bad(tensor(kStorage, 0, std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1)), "9 dimensions");
  expect_bad(tensor(storage("FloatStorage", "0", 7), 0, {7}, {1}), "24 bytes for 7 elements");
  expect_bad(tensor(storage("DoubleStorage", "0", 6), 0, {6}, {1}), "24 bytes for 6 elements");
  expect_bad(tensor(storage("FloatStorage", "0", kHuge), 0, {6}, {1}), "24 bytes for");
  expect_bad(tensor(storage("FloatStorage", "9", 6), 0, {6}, {1}), "lacks data/9");
  expect_bad(tensor(storage("FloatStorage", "../0", 6), 0, {6}, {1}), "lacks data/../0");
  expect_bad(tensor(text("0"), 0, {6}, {1}), "has no storage");
  expect_bad(tensor(tuple({text("storage")}) + "Q", 0, {6}, {1}), "has no storage");
  expect_bad(call(name("torch._utils", "_rebuild_tensor_v2"), {kStorage}), "too few arguments");
  expect_bad(call(name("torch._utils", "_rebuild_parameter"), {whole(1)}), "a parameter of no tensor");
  expect_bad(call(name("torch", "FloatStorage"), {whole(6)}), "is made by torch.FloatStorage");
}

// Two storages that claim three quarters of the free memory each.
TEST_F(StateDictTest, AllStoragesTogetherMustFitIntoMemory) {
  const uint64_t claim = available_memory() / 4 * 3 / 4 * 4, size = 1000;
  const auto claiming = [&](const char* key) {
    return tensor(storage("FloatStorage", key, static_cast<int64_t>(claim / 4)), 0, {1}, {1});
  };
  const std::string path = write(pickled(dict({{"a", claiming("0")}, {"b", claiming("1")}})),
                                 {{"data/0", Bytes(size, 'x')}, {"data/1", Bytes(size, 'x')}});
  write_file(path, replaced(read_file(path), raw(size), raw(claim)));
  expect_error([&] { read_state_dict(path); }, {"model.pth", "MiB of memory", "without the rest"});
}

TEST_F(StateDictTest, NestingTakesNoStack) {
  const Bytes deep = "}" + Bytes(500000, '\x85');  // a tuple of a tuple of a tuple …
  expect_error([&] { read(deep); }, {"not a state dict"});
  expect_error([&] { read("}" + Bytes(2000000, '\x85')); }, {"more than 1048576 values"});
  expect_error([&] { read(Bytes(2000000, '(')); }, {"damaged"});
  expect_error([&] { read(Bytes(17 << 20, 'N')); }, {"too many for a state dict"});
}

// Whatever is cut off or changed: an Error, or a dict of what is still there.
TEST_F(StateDictTest, DamageIsAnErrorAndNeverMore) {
  const Bytes state = dict({{"a", kMatrix}}, kOrderedDict) + dict({{"_metadata", kOrderedDict}}) + "b";
  const Bytes whole_pickle = pickled(dict({{"epoch", whole(3)}, {"model", state}}));
  const std::vector<std::string> names = {"torch._utils._rebuild_tensor_v2", "torch.FloatStorage"};
  EXPECT_EQ(Pickle("model.pth", whole_pickle, names).root().items.size(), 4u);
  for (size_t length = 0; length < whole_pickle.size(); ++length) {
    expect_error([&] { Pickle("model.pth", whole_pickle.substr(0, length), names); },
                 {"model.pth", "damaged", "ends early"});
  }
  Stream stream(5, "damage");
  int errors = 0;
  for (int i = 0; i < 200; ++i) {
    Bytes pickle = whole_pickle;
    pickle[stream.below(pickle.size())] = static_cast<char>(stream.below(256));
    try {
      read_state_dict(write(pickle, {{"data/0", kSix}}));
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 50);
}

TEST_F(StateDictTest, ATruncatedFileIsAnError) {
  const Bytes bytes = read_file(write(pickled(dict({{"a", kMatrix}})), {{"data/0", kSix}}));
  for (size_t length = 1; length < bytes.size(); length += 7) {
    write_file(folder_ / "cut.pth", bytes.substr(0, length));
    expect_error([&] { read_state_dict(folder_ / "cut.pth"); }, {"cut.pth"});
  }
  Bytes changed = bytes;
  changed[changed.find(kSix) + 1] ^= 1;  // one bit of the weights
  write_file(folder_ / "cut.pth", changed);
  expect_error([&] { read_state_dict(folder_ / "cut.pth"); }, {"cut.pth", "checksum"});
}

TEST_F(StateDictTest, RefusesOtherZips) {
  const std::string path = folder_ / "other.zip";
  ZipWriter zip(path);
  zip.add("a.npy", {"x"});
  zip.commit();
  expect_error([&] { read_state_dict(path); }, {"other.zip", "no data.pkl", "torch.save"});
  expect_error(
      [&] {
        read(dict({{"a", kMatrix}}), {{"data/0", kSix}, {"byteorder", "big"}});
      },
      {"big-endian", "safetensors"});
  EXPECT_EQ(read(dict({{"a", kMatrix}}), {{"data/0", kSix}, {"byteorder", "little"}}).tensors.size(), 1u);
}

}  // namespace
}  // namespace poem
