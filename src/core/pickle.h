// Python's pickle format as inert data. A pickle is a program that may call anything; here its instructions
// only build a tree of numbers, texts, lists, dicts and calls, and no call is ever made. Names that are not
// expected are refused, and so are instructions that data does not need.
//
//   const Pickle pickle("model.pth", bytes, {"torch._utils._rebuild_tensor_v2", "torch.FloatStorage"});
//   for (size_t i = 0; i + 1 < pickle.root().items.size(); i += 2)
//     print(pickle[pickle.root().items[i]].text);   // the keys of a dict
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poem {

struct PickleValue {
  enum class Kind {
    kOther,       // None, a truth value or a floating-point number
    kWhole,       // `whole`
    kText,        // `text`
    kTuple,       // `items`
    kList,        // `items`
    kDict,        // `items`: key, value, key, value …
    kName,        // `text`: "module.name"
    kCall,        // of the function `text`; `items`: one tuple, its arguments
    kPersistent,  // `items`: one value, which says what to load from elsewhere
  };
  Kind kind = Kind::kOther;
  int64_t whole = 0;
  std::string text = {};
  std::vector<size_t> items = {};  // see Pickle::operator[]
};

class Pickle {
 public:
  // `where` names the file in messages. `names` are all that may occur; collections.OrderedDict always may,
  // and is a dict. Anything else is an Error, and so is a pickle that is damaged or unreasonably large.
  Pickle(const std::string& where, std::string_view bytes, const std::vector<std::string>& names);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](size_t item) const { return values_[item]; }

 private:
  // Values refer to each other by their index: a list may contain itself, and however deep they nest,
  // nothing recurses.
  std::vector<PickleValue> values_;
  size_t root_ = 0;
};

}  // namespace poem
