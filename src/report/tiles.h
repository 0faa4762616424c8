// Pictures with captions on a page, eight in a row (four or six in a narrow window).
//
//   draw_tiles(page, "12 images", "The strangest first.", {{pixels, {"unknown", "a.png"}}});
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "report/page.h"

namespace poem {

struct Tile {
  at::Tensor pixels;  // uint8 C×s×s, the same C and s for all tiles of a call
  std::vector<std::string> caption;
};

// The page needs the script run.js.
void draw_tiles(Page& page, const std::string& title, const std::string& remark,
                const std::vector<Tile>& tiles);

}  // namespace poem
