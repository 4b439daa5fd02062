#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reference/model/config.h"
#include "reference/model/input.h"

namespace mtpcheck {

/// The rows of a head from a safetensors or HDF5 file:
///
///   input_ids [T], positions [T], hidden_states [T, H], optional cu_seqlens [B+1]   rows as they are, ids shifted by
///   one input_ids [T], positions [T], target_hidden [T, H]                              a trace: T−1 rows are cut from
///   it,
///                                                                                   row i = hidden state and position
///                                                                                   of token i, id of token i+1
/// prefix  of all names: "step1." for the second draft step of a recording
///
/// Throws Error{input} for what is missing, of the wrong shape or dtype, and where check_input does.
HeadInput read_head_input(const std::filesystem::path& path, const HeadConfig& config, const std::string& prefix = {});

/// Throws Error{input}, prefixed with `source`, for rows that do not fit the config or one another: shapes, ids that
/// are not below the vocabulary, negative positions, sequence bounds that do not rise from 0 to T.
void check_input(const HeadInput& input, const HeadConfig& config, const std::string& source);

/// Several inputs as one packed batch, in order. Their hidden states have one dtype and width.
HeadInput packed(const std::vector<HeadInput>& inputs);

}  // namespace mtpcheck
