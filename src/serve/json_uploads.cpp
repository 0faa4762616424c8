#include "serve/json_uploads.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/base64.h"

namespace poem {
namespace {

using nlohmann::json;

constexpr const char* kForm =
    R"(the body must be {"images": [{"name": "photo.jpg", "data": "base64 of the file"}]})";

// nlohmann's parser calls these functions. One that returns false ends the parsing.
class Reader : public json::json_sax_t {
 public:
  explicit Reader(int64_t most) : most_(most) {}
  std::vector<JsonUpload> uploads;
  std::optional<Answer> refusal;

  bool start_object(size_t) override {
    if (place_ == Place::kStart) return go_to(Place::kBody);
    if (place_ != Place::kImages) return wrong_value();
    if (static_cast<int64_t>(uploads.size()) == most_) return refuse(too_many_images(most_));
    uploads.push_back({fmt::format("image {}", uploads.size()), ""});
    data_.reset();
    return go_to(Place::kImage);
  }
  bool key(std::string& key) override {
    if (place_ == Place::kBody && key == "images") return go_to(Place::kBeforeImages);
    if (place_ != Place::kImage) return wrong_form();
    if (key != "name" && key != "data") {
      constexpr size_t kLongest = 60;
      const std::string field =
          key.size() > kLongest ? fmt::format("of {} bytes", key.size()) : "'" + key + "'";
      return refuse(problem(400, fmt::format("unknown field {}: {}", field, kForm)));
    }
    field_is_name_ = key == "name";
    return true;
  }
  bool end_object() override {
    if (place_ != Place::kImage) return place_ == Place::kEnd || wrong_form();  // of the body
    if (!data_) return wrong_form();
    auto bytes = from_base64(*data_);
    if (!bytes) return refuse(problem(400, fmt::format("{}: 'data' is not base64", uploads.back().name)));
    uploads.back().bytes = std::move(*bytes);
    return go_to(Place::kImages);
  }
  bool start_array(size_t) override {
    return place_ == Place::kBeforeImages ? go_to(Place::kImages) : wrong_value();
  }
  bool end_array() override { return go_to(Place::kEnd); }
  bool string(std::string& text) override {
    if (place_ != Place::kImage) return wrong_form();
    if (!field_is_name_) {
      data_ = std::move(text);
      return true;
    }
    if (auto answer = too_long_name(text)) return refuse(*std::move(answer));
    uploads.back().name = std::move(text);
    return true;
  }
  bool null() override { return wrong_value(); }
  bool boolean(bool) override { return wrong_value(); }
  bool number_integer(int64_t) override { return wrong_value(); }
  bool number_unsigned(uint64_t) override { return wrong_value(); }
  bool number_float(double, const std::string&) override { return wrong_value(); }
  bool binary(json::binary_t&) override { return wrong_value(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return wrong_form();
  }

 private:
  enum class Place { kStart, kBody, kBeforeImages, kImages, kImage, kEnd };
  bool go_to(Place place) {
    place_ = place;
    return true;
  }
  bool refuse(Answer answer) {
    refusal = std::move(answer);
    return false;
  }
  bool wrong_form() { return refuse(problem(400, kForm)); }
  bool wrong_value() {
    return place_ == Place::kImage && field_is_name_ ? refuse(problem(400, "'name' is not a text"))
                                                     : wrong_form();
  }

  const int64_t most_;
  Place place_ = Place::kStart;
  bool field_is_name_ = false;       // not data
  std::optional<std::string> data_;  // of the last upload
};

}  // namespace

std::variant<std::vector<JsonUpload>, Answer> read_json_uploads(const std::string& body, int64_t most) {
  Reader reader(most);
  json::sax_parse(body, &reader);
  if (reader.refusal) return *reader.refusal;
  return std::move(reader.uploads);
}

}  // namespace poem
