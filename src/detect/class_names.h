// Names that classes can have beside the words of verdicts.
//
//   check_class_names("photos/train", images.class_names);
#pragma once
#include <string>
#include <vector>

namespace poem {

// Throws an Error at `where` for a name that verdicts use, such as "unknown", and for one that occurs twice.
void check_class_names(const std::string& where, const std::vector<std::string>& names);

}  // namespace poem
