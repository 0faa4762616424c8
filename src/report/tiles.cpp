#include "report/tiles.h"

#include <ATen/ATen.h>

#include "images/encode.h"

namespace poem {
namespace {

constexpr int64_t kColumns = 8;

// Tiles side by side, in rows of kColumns; the last row is filled up with black.
std::string to_png(std::vector<at::Tensor> tiles) {
  const at::Tensor black = at::zeros_like(tiles.front());
  while (tiles.size() % kColumns != 0) tiles.push_back(black);
  std::vector<at::Tensor> rows;
  for (size_t i = 0; i < tiles.size(); i += kColumns)
    rows.push_back(at::cat(at::TensorList(&tiles[i], kColumns), 2));
  return encode_png(at::cat(rows, 1).permute({1, 2, 0}));
}

}  // namespace

void draw_tiles(Page& page, const std::string& title, const std::string& remark,
                const std::vector<Tile>& tiles) {
  std::vector<at::Tensor> pixels;
  nlohmann::json captions = nlohmann::json::array();
  for (const Tile& tile : tiles) {
    pixels.push_back(tile.pixels);
    captions.push_back(tile.caption);
  }
  page.draw({{"kind", "gallery"},
             {"title", title},
             {"remark", remark},
             {"src", picture_uri(to_png(pixels))},
             {"tile", pixels.front().size(2)},
             {"columns", kColumns},
             {"tiles", captions}});
}

}  // namespace poem
