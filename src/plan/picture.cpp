#include "plan/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/plot.h"

namespace poem {

std::string plan_picture(const Workload& work, const Machine& machine) {
  constexpr double kSmallest = 1e5, kLargest = 1e10;
  constexpr Ink kInks[] = {Ink::kBlue, Ink::kOrange, Ink::kGreen, Ink::kRed};
  Panel panel;
  panel.x = {"images in the pool", kSmallest, kLargest, true};
  panel.y = {"seconds per epoch", 1, 1, true};
  size_t ink = 0;
  for (const int64_t devices : {1, 8, 64, 1024}) {
    if (devices > 1 && !(machine.link > 0 && machine.host_link > 0)) break;
    Line line;
    line.ink = kInks[ink++];
    line.label = fmt::format("{} {}", devices, devices == 1 ? "device" : "devices");
    for (double pool = kSmallest; pool <= 1.01 * kLargest; pool *= std::sqrt(10.0)) {
      Workload larger = work;
      larger.pool = pool;
      line.x.push_back(pool);
      line.y.push_back(epoch_costs(larger, machine, devices).back().seconds());
    }
    panel.y.low = std::min(panel.y.low, line.y.front());
    panel.y.high = std::max(panel.y.high, line.y.back());
    Points points;
    points.ink = line.ink;
    points.radius = 4;
    points.label = "measured";
    for (const MeasuredEpoch& epoch : machine.epochs) {
      if (epoch.devices != devices) continue;
      points.x.push_back(epoch.pool);
      points.y.push_back(epoch.seconds);
    }
    if (!points.x.empty()) panel.points.push_back(points);
    panel.lines.push_back(line);
  }
  Figure figure;
  figure.title = "Time of an epoch on " + machine.name;
  figure.description =
      "Seconds per epoch over the number of images in the pool, one line per number of devices.";
  figure.panels = {panel};
  figure.panel_width = 420;
  figure.panel_height = 260;
  return to_svg(figure);
}

}  // namespace poem
