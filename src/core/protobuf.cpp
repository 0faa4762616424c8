#include "core/protobuf.h"

#include <cstring>

namespace poem {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void add_varint(uint64_t value, std::string& bytes) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void add_tag(int field, WireType type, std::string& bytes) {
  add_varint(static_cast<uint64_t>(field << 3 | type), bytes);
}

template <class T>
void add_raw(T value, std::string& bytes) {  // every machine that poem runs on is little-endian
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

}  // namespace

Message& Message::add(int field, int64_t value) {
  add_tag(field, kVarint, bytes_);
  add_varint(static_cast<uint64_t>(value), bytes_);
  return *this;
}

Message& Message::add(int field, float value) {
  add_tag(field, kFixed32, bytes_);
  add_raw(value, bytes_);
  return *this;
}

Message& Message::add(int field, double value) {
  add_tag(field, kFixed64, bytes_);
  add_raw(value, bytes_);
  return *this;
}

Message& Message::add(int field, std::string_view bytes) {
  add_tag(field, kBytes, bytes_);
  add_varint(bytes.size(), bytes_);
  bytes_.append(bytes);
  return *this;
}

}  // namespace poem
