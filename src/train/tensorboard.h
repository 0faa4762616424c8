// The TensorBoard event file of a run: the figures of metrics.jsonl as scalars, one step per epoch.
//
//   write_events("runs/first", read_file("runs/first/metrics.jsonl"));   // tensorboard --logdir runs
//
// The format is TFRecord (length, masked CRC-32C of it, bytes, masked CRC-32C of them) around the protobuf
// message Event, of which scalars need four fields.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace poem {

// Makes the run's event file say what `metrics` says, the text of metrics.jsonl. Its name,
// events.out.tfevents.START.poem, keeps when the run began, in seconds of Unix time; an event's wall time is
// START plus the seconds that the epochs up to it took, so that resuming changes nothing in what is there.
// The file is written in place, not replaced: a reader that has it open can go on with what is added.
void write_events(const std::string& run, const std::string& metrics);

// The bytes of that file.
std::string encode_events(const std::string& metrics, int64_t start);

uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial

}  // namespace poem
