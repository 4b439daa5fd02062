#include "harness/checkpoint/safetensors/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/checkpoint/scratch_directory.h"

namespace mtpcheck {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::variant<SafetensorsHeader, Problem> read(std::string_view bytes) {
  HeaderReader reader;
  return reader.read(std::as_bytes(std::span(bytes)), "model.safetensors");
}

std::variant<SafetensorsHeader, Problem> read(std::string_view header, std::size_t data) {
  return read(safetensors_bytes(header, data));
}

Problem problem_of(const std::variant<SafetensorsHeader, Problem>& result) {
  if (const auto* const problem = std::get_if<Problem>(&result)) {
    EXPECT_EQ(problem->file, "model.safetensors");
    EXPECT_THAT(problem->message, HasSubstr("model.safetensors: "));
    return *problem;
  }
  ADD_FAILURE() << "accepted";
  return {};
}

std::string corrupt(std::string_view header, std::size_t data) {
  const Problem problem = problem_of(read(header, data));
  EXPECT_EQ(problem.id, ProblemId::corrupt_header);
  EXPECT_TRUE(problem.offset.has_value());
  return problem.message;
}

TEST(SafetensorsHeader, TensorsAreSortedByNameAndKnowTheirPlace) {
  const std::string text =
      R"({"__metadata__": {"format": "pt"}, "b": {"dtype": "F32", "shape": [2, 1], "data_offsets": [3, 11]},)"
      R"( "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}   )";
  const auto header = std::get<SafetensorsHeader>(read(text, 11));
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.data_start, 8 + text.size());
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, Dtype::u8);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].shape, (Shape{2, 1}));
  EXPECT_EQ(header.tensors[1].offset, 8 + text.size() + 3) << "no multiple of 4: legal";
  EXPECT_EQ(header.tensors[1].file, "model.safetensors");
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, EveryDtypeIsRead) {
  for (const char* dtype : {"BOOL", "U8",  "I8",  "U16", "I16",     "U32",     "I32",     "U64",     "I64",     "F16",
                            "BF16", "F32", "F64", "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4"}) {
    const std::size_t bytes = bits_of(dtype_from_safetensors(dtype).value());  // of eight elements
    const std::string text = std::string(R"({"t": {"dtype": ")") + dtype + R"(", "shape": [8], "data_offsets": [0, )" +
                             std::to_string(bytes) + "]}}";
    EXPECT_TRUE(std::holds_alternative<SafetensorsHeader>(read(text, bytes))) << dtype;
  }
}

TEST(SafetensorsHeader, EmptyTensorsScalarsAndFilesWithoutTensors) {
  EXPECT_TRUE(std::holds_alternative<SafetensorsHeader>(read("{}", 0)));
  const auto header =
      std::get<SafetensorsHeader>(read(R"({"scalar": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},)"
                                       R"( "none": {"dtype": "F32", "shape": [4, 0], "data_offsets": [4, 4]},)"
                                       R"( "more": {"dtype": "U8", "shape": [1], "data_offsets": [4, 5]}})",
                                       5));
  EXPECT_EQ(header.tensors.size(), 3U);
}

TEST(SafetensorsHeader, TheLengthIsCheckedFirst) {
  EXPECT_THAT(problem_of(read("short")).message, HasSubstr("5 bytes"));
  std::string bytes = safetensors_bytes("{}", 0);
  bytes[7] = '\x80';  // 2^63 and a little
  EXPECT_THAT(problem_of(read(bytes)).message, HasSubstr("a header length of 9,223,372,036,854,775,810"));
  bytes[7] = 0;
  bytes[0] = 3;
  EXPECT_THAT(problem_of(read(bytes)).message, HasSubstr("at most the 2 bytes that the file has left"));
  EXPECT_THAT(corrupt("", 4), HasSubstr("no opening brace"));
  EXPECT_THAT(corrupt(" {}", 0), HasSubstr("no opening brace"));
}

TEST(SafetensorsHeader, WhatIsNotJsonIsRefusedWithItsPlace) {
  EXPECT_THAT(corrupt(R"({"a": {"dtype": "U8" "shape": []}})", 1),
              AllOf(HasSubstr("not valid JSON"), HasSubstr("byte 35")));
  EXPECT_THAT(corrupt("{\"\xff\": {}}", 0), HasSubstr("not valid UTF-8 at byte 10"));
  EXPECT_THAT(corrupt("{} {}", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(corrupt("{", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(corrupt(R"({"a": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0),
              HasSubstr("nested deeper"));
  EXPECT_THAT(corrupt(R"({"a": )" + std::string(100'000, '['), 0), HasSubstr("byte"));
  EXPECT_THAT(corrupt(R"({"a": {"dtype": "U8", "shape": [99999999999999999999999], "data_offsets": [0, 1]}})", 1),
              HasSubstr("byte"));
}

TEST(SafetensorsHeader, EntriesOfTheWrongFormAreRefused) {
  const auto entry = [](std::string_view fields) { return corrupt("{\"t\": {" + std::string(fields) + "}}", 4); };
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": [1])"), HasSubstr("data_offsets 0"));
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4], "dtype": "I32")"),
              HasSubstr("dtype stands 2 times"));
  EXPECT_THAT(entry(R"("dtype": "F33", "shape": [1], "data_offsets": [0, 4])"), HasSubstr("dtype F33 is unknown"));
  EXPECT_THAT(entry(R"("dtype": 32, "shape": [1], "data_offsets": [0, 4])"), HasSubstr("dtype is no text"));
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": [-1], "data_offsets": [0, 4])"), HasSubstr("extent"));
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": [1.0], "data_offsets": [0, 4])"), HasSubstr("extent"));
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": 1, "data_offsets": [0, 4])"), HasSubstr("shape is no list"));
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8])"), HasSubstr("data_offsets"));
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": [1], "data_offsets": [-4, 0])"), HasSubstr("data_offsets"));
  EXPECT_THAT(corrupt(R"({"t": []})", 0), HasSubstr("no object"));
  EXPECT_THAT(corrupt(R"({"__metadata__": {"a": 1}})", 0), HasSubstr("__metadata__.a is no text"));
  EXPECT_THAT(corrupt(R"({"__metadata__": [], "t": {}})", 0), HasSubstr("__metadata__"));
}

TEST(SafetensorsHeader, SizesMustFitAndNotOverflow) {
  const auto entry = [](std::string_view fields) { return corrupt("{\"t\": {" + std::string(fields) + "}}", 4); };
  EXPECT_THAT(entry(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 4])"),
              AllOf(HasSubstr("its range has 4 bytes"), HasSubstr("8 ([2] of F32)")));
  EXPECT_THAT(entry(R"("dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0])"),
              HasSubstr("overflows 64 bits"));
  EXPECT_THAT(entry(R"("dtype": "F64", "shape": [4611686018427387904], "data_offsets": [0, 0])"),
              HasSubstr("overflow 64 bits"));
  EXPECT_THAT(entry(R"("dtype": "F4", "shape": [3], "data_offsets": [0, 1])"), HasSubstr("no whole bytes"));
  EXPECT_THAT(entry(R"("dtype": "U8", "shape": [1], "data_offsets": [2, 1])"), HasSubstr("begin ≤ end"));
  EXPECT_THAT(entry(R"("dtype": "U8", "shape": [1], "data_offsets": [18446744073709551614, 18446744073709551615])"),
              HasSubstr("overflows 64 bits"));
}

TEST(SafetensorsHeader, RangesMustFillTheData) {
  const auto two = [](const char* first, const char* second, std::size_t data) {
    return read(std::string(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": )") + first +
                    R"(}, "b": {"dtype": "U8", "shape": [4], "data_offsets": )" + second + "}}",
                data);
  };
  EXPECT_TRUE(std::holds_alternative<SafetensorsHeader>(two("[4, 8]", "[0, 4]", 8)));
  EXPECT_THAT(problem_of(two("[0, 4]", "[3, 7]", 7)).message, HasSubstr("overlap"));
  EXPECT_THAT(problem_of(two("[0, 4]", "[0, 4]", 4)).message, HasSubstr("overlap"));
  EXPECT_THAT(problem_of(two("[0, 4]", "[5, 9]", 9)).message, HasSubstr("hole"));
  EXPECT_THAT(problem_of(two("[1, 5]", "[5, 9]", 9)).message, HasSubstr("hole"));
  const Problem rest = problem_of(two("[0, 4]", "[4, 8]", 9));
  EXPECT_EQ(rest.id, ProblemId::corrupt_header);
  EXPECT_THAT(rest.message, HasSubstr("1 bytes follow the last tensor"));
}

TEST(SafetensorsHeader, AShortFileIsTruncatedAtATensor) {
  const std::string text = R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},)"
                           R"( "b": {"dtype": "U8", "shape": [2000], "data_offsets": [4, 2004]}})";
  const Problem problem = problem_of(read(text, 1004));
  EXPECT_EQ(problem.id, ProblemId::truncated);
  EXPECT_EQ(problem.tensor, "b");
  EXPECT_EQ(problem.offset, 8 + text.size() + 1004);
  EXPECT_THAT(problem.message, AllOf(HasSubstr("tensor b ends at byte 2,"), HasSubstr("1,000 bytes short")));
}

TEST(SafetensorsHeader, ANameMayStandOnce) {
  EXPECT_THAT(corrupt(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},)"
                      R"( "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
                      2),
              AllOf(HasSubstr("tensor a"), HasSubstr("twice")));
  EXPECT_THAT(corrupt(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},)"
                      R"( "\u0061": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
                      2),
              HasSubstr("twice"));
}

TEST(SafetensorsHeader, AReaderIsGoodForMoreThanOneFile) {
  HeaderReader reader;
  const std::string broken = safetensors_bytes("{\"a\"", 0);
  const std::string sound = safetensors_bytes(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::holds_alternative<Problem>(reader.read(std::as_bytes(std::span(broken)), "broken")));
    EXPECT_TRUE(std::holds_alternative<SafetensorsHeader>(reader.read(std::as_bytes(std::span(sound)), "sound")));
  }
}

}  // namespace
}  // namespace mtpcheck
