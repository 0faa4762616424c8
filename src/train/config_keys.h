// Binds each key of a config to its variable, range and meaning.
//
//   Config config;
//   set_key(keys(config), "train.epochs=3");
#pragma once
#include <vector>

#include "core/keys.h"
#include "poem/config.h"

namespace poem {

std::vector<Key> keys(Config& config);

}  // namespace poem
