#include "core/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "poem/error.h"

namespace poem {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMostValues = size_t{1} << 20;  // a state dict of ResNet-50 has 5,480
constexpr const char* kOrderedDict = "collections.OrderedDict";

// The instructions of pickle protocols 2 to 5 that data needs (Python's Lib/pickletools.py describes all).
enum Instruction : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistent = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTrue = 0x88,
  kFalse = 0x89,
  kLong1 = 0x8a,
  kShortUnicode = 0x8c,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95
};

std::string instruction_text(uint8_t instruction) {
  static constexpr std::pair<uint8_t, const char*> kKnown[] = {
      {'i', "INST"}, {'o', "OBJ"}, {0x81, "NEWOBJ"}, {0x82, "EXT1"}, {0x92, "NEWOBJ_EX"}};
  for (const auto& [code, name] : kKnown) {
    if (code == instruction) return name;
  }
  return fmt::format("0x{:02x}", instruction);
}

// Runs the instructions. Each group of them is a function that returns false for those of other groups.
class Machine {
 public:
  Machine(const std::string& where, std::string_view bytes, const std::vector<std::string>& names,
          std::vector<PickleValue>& values)
      : where_(where), bytes_(bytes), names_(names), values_(values) {}

  size_t run() {
    for (;;) {
      const uint8_t instruction = byte();
      if (instruction == kStop) return pop();
      if (!scalar(instruction) && !container(instruction) && !memo(instruction) && !object(instruction))
        refuse("needs the pickle instruction " + instruction_text(instruction));
    }
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(where_, "has a damaged pickle: " + what, "save or copy the file again");
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(where_, what + ", which is refused: poem reads state dicts only and executes nothing",
                "save the weights alone: torch.save(model.state_dict(), FILE)");
  }

  std::string_view take(size_t count) {
    if (count > bytes_.size() - next_) damaged("it ends early");
    next_ += count;
    return bytes_.substr(next_ - count, count);
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  template <class Number>  // little-endian, as this machine is (core/zip.cpp)
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string line() {
    const size_t end = bytes_.find('\n', next_);
    if (end == std::string_view::npos) damaged("it ends early");
    std::string text(take(end - next_));
    take(1);
    return text;
  }

  void push(PickleValue value) {
    if (values_.size() == kMostValues) damaged(fmt::format("it has more than {} values", kMostValues));
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
  }
  void push_text(std::string_view text) { push({Kind::kText, 0, std::string(text)}); }
  void push_whole(int64_t whole) { push({Kind::kWhole, whole}); }
  void push_items(Kind kind, std::vector<size_t> items) { push({kind, 0, "", std::move(items)}); }
  size_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
      damaged("it takes a value where there is none");
    const size_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<size_t> pop_several(size_t count) {
    std::vector<size_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  std::vector<size_t> pop_to_mark() {
    if (marks_.empty()) damaged("it has no mark where one is needed");
    std::vector<size_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  PickleValue& top() {
    stack_.push_back(pop());
    return values_[stack_.back()];
  }
  size_t pop_of(Kind kind, const char* what) {
    const size_t value = pop();
    if (values_[value].kind != kind) damaged(fmt::format("it lacks {}", what));
    return value;
  }

  bool scalar(uint8_t instruction) {
    switch (instruction) {
      case kNone:
      case kTrue:
      case kFalse:
        push({});
        break;
      case kBinFloat:
        take(8);
        push({});
        break;
      case kBinInt:
        push_whole(number<int32_t>());
        break;
      case kBinInt1:
        push_whole(byte());
        break;
      case kBinInt2:
        push_whole(number<uint16_t>());
        break;
      case kLong1:
        push_long();
        break;
      case kBinUnicode:
        push_text(take(number<uint32_t>()));
        break;
      case kShortUnicode:
        push_text(take(byte()));
        break;
      default:
        return false;
    }
    return true;
  }

  // Two's complement of any length. Of numbers beyond 64 bits only their presence is kept.
  void push_long() {
    const std::string_view digits = take(byte());
    if (digits.size() > sizeof(int64_t)) return push({});
    int64_t whole = !digits.empty() && (digits.back() & 0x80) != 0 ? -1 : 0;
    std::memcpy(&whole, digits.data(), digits.size());
    push_whole(whole);
  }

  bool container(uint8_t instruction) {
    switch (instruction) {
      case kMark:
        marks_.push_back(stack_.size());
        break;
      case kPop:
        pop();
        break;
      case kPopMark:
        pop_to_mark();
        break;
      case kEmptyTuple:
        push_items(Kind::kTuple, {});
        break;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        push_items(Kind::kTuple, pop_several(instruction - kTuple1 + 1));
        break;
      case kTuple:
        push_items(Kind::kTuple, pop_to_mark());
        break;
      case kEmptyList:
        push_items(Kind::kList, {});
        break;
      case kEmptyDict:
        push_items(Kind::kDict, {});
        break;
      case kAppend:
        extend(Kind::kList, pop_several(1));
        break;
      case kAppends:
        extend(Kind::kList, pop_to_mark());
        break;
      case kSetItem:
        extend(Kind::kDict, pop_several(2));
        break;
      case kSetItems:
        extend(Kind::kDict, pop_to_mark());
        break;
      default:
        return false;
    }
    return true;
  }

  void extend(Kind kind, const std::vector<size_t>& items) {
    PickleValue& target = top();
    if (target.kind != kind || (kind == Kind::kDict && items.size() % 2 != 0))
      damaged("it adds items to something else than a list or a dict");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  bool memo(uint8_t instruction) {
    switch (instruction) {
      case kProtocol:
        take(1);
        break;
      case kFrame:
        take(8);
        break;
      case kBinPut:
        remember(byte());
        break;
      case kLongBinPut:
        remember(number<uint32_t>());
        break;
      case kMemoize:
        remember(static_cast<uint32_t>(memo_.size()));
        break;
      case kBinGet:
        recall(byte());
        break;
      case kLongBinGet:
        recall(number<uint32_t>());
        break;
      default:
        return false;
    }
    return true;
  }
  void remember(uint32_t key) {
    top();
    memo_[key] = stack_.back();
  }
  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) damaged("it refers to a value that it never stored");
    stack_.push_back(found->second);
  }

  bool object(uint8_t instruction) {
    switch (instruction) {
      case kGlobal: {
        const std::string module = line();
        push_name(module + "." + line());
        break;
      }
      case kStackGlobal: {
        const size_t name = pop_of(Kind::kText, "a name"), module = pop_of(Kind::kText, "a module's name");
        push_name(values_[module].text + "." + values_[name].text);
        break;
      }
      case kBinPersistent:
        push_items(Kind::kPersistent, pop_several(1));
        break;
      case kReduce:
        push_call();
        break;
      case kBuild:  // attributes of an OrderedDict, such as a state dict's _metadata
        pop();
        if (top().kind != Kind::kDict) refuse("sets attributes of an object");
        break;
      default:
        return false;
    }
    return true;
  }

  void push_name(const std::string& name) {
    if (name != kOrderedDict && std::find(names_.begin(), names_.end(), name) == names_.end())
      refuse("contains " + name);
    push({Kind::kName, 0, name});
  }

  void push_call() {
    const size_t arguments = pop_of(Kind::kTuple, "the arguments of a call"), function = pop();
    if (values_[function].kind != Kind::kName) refuse("calls something that is not a name");
    if (values_[function].text != kOrderedDict)
      return push({Kind::kCall, 0, values_[function].text, {arguments}});
    if (!values_[arguments].items.empty()) damaged("it makes an OrderedDict of arguments");
    push_items(Kind::kDict, {});
  }

  const std::string& where_;
  const std::string_view bytes_;
  const std::vector<std::string>& names_;
  std::vector<PickleValue>& values_;
  size_t next_ = 0;  // of bytes_
  std::vector<size_t> stack_, marks_;
  std::unordered_map<uint32_t, size_t> memo_;
};

}  // namespace

Pickle::Pickle(const std::string& where, std::string_view bytes, const std::vector<std::string>& names)
    : root_(Machine(where, bytes, names, values_).run()) {}

}  // namespace poem
