// Names that classes can have beside the words of verdicts.
//
//   check_class_names("photos/train", images.class_names);
#pragma once
#include <string>
#include <vector>

namespace poem {

// Throws an Error at `where` for a name that verdicts use, such as "unknown", for one that occurs twice, and
// for one that is not UTF-8: a detector could not keep it, and test images would have another.
void check_class_names(const std::string& where, const std::vector<std::string>& names);

}  // namespace poem
