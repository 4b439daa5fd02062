#include "harness/checkpoint/safetensors/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "harness/checkpoint/mapped_file.h"
#include "harness/checkpoint/safetensors/header.h"
#include "harness/checkpoint/scratch_directory.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::size_t files_in(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

SafetensorsHeader header_of(const MappedFile& file) {
  HeaderReader reader;
  auto header = reader.read(file.bytes(), "out.safetensors");
  if (const auto* const problem = std::get_if<Problem>(&header)) ADD_FAILURE() << problem->message;
  return std::get<SafetensorsHeader>(header);
}

TEST(SafetensorsWriter, WhatIsWrittenReadsBack) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "out.safetensors";
  const Tensor bytes = tensor_of<std::uint8_t>({3}, std::array<std::uint8_t, 3>{1, 2, 3});
  const Tensor numbers = tensor_of<double>({1, 2}, std::array{0.5, -2.0});
  write_safetensors(path, {bytes.view("b \"quoted\""), numbers.view("a")}, {{"tool", "mtpcheck"}});
  const MappedFile file(path);
  const SafetensorsHeader header = header_of(file);
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.metadata.at("tool"), "mtpcheck");
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].offset % 8, 0U);
  TensorView a = header.tensors[0];
  a.bytes = file.bytes().subspan(a.offset, 16);
  EXPECT_THAT(to_f64(a), ElementsAre(0.5, -2.0));
  TensorView b = header.tensors[1];
  EXPECT_EQ(b.name, "b \"quoted\"");
  b.bytes = file.bytes().subspan(b.offset, 3);
  EXPECT_THAT(to_i64(b), ElementsAre(1, 2, 3));
  EXPECT_EQ(files_in(scratch.path()), 1U);
}

TEST(SafetensorsWriter, AHeaderThatOutgrowsItsRoomMovesTheData) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "out.safetensors";
  std::vector<std::uint8_t> values(3 << 20);  // more than one block of the move
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 7919 >> 5);
  const Tensor big = tensor_of<std::uint8_t>({values.size()}, values);
  const Tensor small = tensor_of<std::int32_t>({1}, std::array{-7});
  SafetensorsWriter writer(path, 16);
  writer.add(big.view("big"));
  writer.add(small.view("small"));
  writer.finish();
  const MappedFile file(path);
  const SafetensorsHeader header = header_of(file);
  ASSERT_EQ(header.tensors.size(), 2U);
  const auto found = file.bytes().subspan(header.tensors[0].offset, values.size());
  EXPECT_TRUE(std::ranges::equal(found, std::as_bytes(std::span(values))));
  TensorView last = header.tensors[1];
  last.bytes = file.bytes().subspan(last.offset, 4);
  EXPECT_THAT(to_i64(last), ElementsAre(-7));
}

TEST(SafetensorsWriter, NothingIsLeftBehindWhenItIsNotFinished) {
  const ScratchDirectory scratch;
  const auto path = scratch.write("out.safetensors", "what was there before");
  const Tensor one = tensor_of<float>({1}, std::array{1.0F});
  {
    SafetensorsWriter writer(path);
    writer.add(one.view("a"));
    EXPECT_THROW(writer.add(one.view("a")), Error);
    TensorView wrong = one.view("b");
    wrong.shape = {2};
    EXPECT_THROW(writer.add(wrong), Error);
  }
  EXPECT_EQ(files_in(scratch.path()), 1U);
  EXPECT_EQ(MappedFile(path).bytes().size(), 21U);
}

TEST(SafetensorsWriter, FailuresOfTheEnvironmentSaySo) {
  try {
    const SafetensorsWriter writer("/nonexistent/out.safetensors");
    ADD_FAILURE() << "created";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/out.safetensors: cannot be created"));
  }
}

TEST(SafetensorsWriter, AFileWithoutTensorsIsValid) {
  const ScratchDirectory scratch;
  write_safetensors(scratch.path() / "out.safetensors", {});
  EXPECT_TRUE(header_of(MappedFile(scratch.path() / "out.safetensors")).tensors.empty());
}

}  // namespace
}  // namespace mtpcheck
