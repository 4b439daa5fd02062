#include "golden/cases/loader_outcome.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace mtpcheck::golden {

namespace {

/// "PARAM shard=w1 expert=3 not-written"
RecordedLoad parse_load(const std::string& text) {
  const auto words = words_of(text);
  RecordedLoad load{long_name(words.at(0)), "", -1, true};
  for (const auto& word : words) {
    if (word.starts_with("shard=")) load.shard = word.substr(6);
    if (word.starts_with("expert=")) load.expert = std::stoi(word.substr(7));
    if (word == "not-written") load.written = false;
  }
  return load;
}

/// "OUTCOME | LOAD | LOAD"
RecordedTensor parse_tensor(const std::string& text) {
  RecordedTensor tensor;
  std::size_t begin = 0;
  for (bool first = true; begin != std::string::npos; first = false) {
    const auto bar = text.find(" | ", begin);
    const auto part = text.substr(begin, bar == std::string::npos ? bar : bar - begin);
    if (first) {
      tensor.outcome = part;
    } else if (part.starts_with("completed-by ")) {
      tensor.completed_by = long_name(part.substr(13));
    } else {
      tensor.loads.push_back(parse_load(part));
    }
    begin = bar == std::string::npos ? bar : bar + 3;
  }
  return tensor;
}

/// "DTYPE SHAPE [INITIAL] unwritten=N SHA256 [nondeterministic]"
RecordedParameter parse_parameter(const std::string& text) {
  const auto words = words_of(text);
  RecordedParameter parameter{words.at(0), parse_shape(words.at(1)), "", 0, "", false};
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i].starts_with("unwritten=")) {
      parameter.unwritten = std::stoul(words[i].substr(10));
    } else if (words[i].size() == 64) {
      parameter.sha256 = words[i];
    } else if (words[i] == "nondeterministic") {
      parameter.nondeterministic = true;
    } else if (words[i] != "-" || i == 2) {
      parameter.initial = words[i];
    }
  }
  return parameter;
}

std::string after(const std::string& text, std::size_t words) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < words; ++i) at = text.find(' ', at) + 1;
  return text.substr(at);
}

void apply(LoaderOutcome& outcome, const CaseLine& line, std::set<std::string>& own_tensors) {
  const auto& [word, rest] = line;
  const auto words = words_of(rest);
  const auto quoted = [](const std::string& text) { return nlohmann::json::parse(text).get<std::string>(); };
  if (word == "tensor") {
    auto& copies = outcome.tensors[long_name(words.at(0))];
    if (own_tensors.insert(words[0]).second) copies.clear();
    copies.push_back(parse_tensor(after(rest, 1)));
  } else if (word == "param") {
    outcome.parameters[long_name(words.at(0))] = parse_parameter(after(rest, 1));
  } else if (word == "no-param") {
    outcome.parameters.erase(long_name(words.at(0)));
  } else if (word == "verdict") {
    outcome.defective = words.at(0) == "defective";
    outcome.engine_silent = words.size() > 1;
  } else if (word == "refused") {
    outcome.refused = {words.at(0), "", quoted(after(rest, 1))};
  } else if (word == "exception") {
    outcome.exception = {words.at(0), words.at(1), quoted(after(rest, 2))};
  } else if (word == "unassigned") {
    outcome.unassigned.push_back(long_name(rest));
  } else if (word == "silently-incomplete") {
    outcome.silently_incomplete[long_name(words.at(0))] = std::stoul(words.at(1));
  } else if (word == "warning") {
    outcome.warnings.push_back(quoted(rest));
  } else if (word == "construction-warning") {
    outcome.construction_warnings.push_back(quoted(rest));
  } else if (word == "loaded-too") {
    outcome.loaded_too.insert(long_name(rest));
  } else if (word == "file") {
    outcome.file_sha256[words.at(0)] = words.at(1);
  } else if (word == "against-vllm") {
    outcome.compared_with_vllm = true;
    for (const auto& each : words) {
      if (each.starts_with("equal=")) outcome.equal_to_vllm = std::stoul(each.substr(6));
      if (each.starts_with("permuted=")) outcome.permuted_from_vllm = std::stoul(each.substr(9));
      if (each.starts_with("skipped=")) outcome.skipped_with_vllm = std::stoul(each.substr(8));
    }
    if (words.at(0) == "differ") outcome.differs_from_vllm.push_back(words.at(1));
    if (words.at(0) == "missing_in_vllm") outcome.missing_in_vllm.push_back(words.at(1));
  }
}

}  // namespace

const RecordedTensor& LoaderOutcome::tensor(const std::string& name, std::size_t copy) const {
  const auto& copies = tensors.at(name);
  return copies[std::min(copy, copies.size() - 1)];
}

LoaderOutcomes LoaderOutcomes::of_vllm(const std::filesystem::path& folder) {
  LoaderOutcomes outcomes;
  outcomes.parent_word_ = "from";
  outcomes.lines_ = read_case_lines(folder / "cases");
  for (auto& [name, lines] : read_case_lines(folder / "expected")) {
    auto& all = outcomes.lines_.at(name);
    all.insert(all.end(), lines.begin(), lines.end());
  }
  return outcomes;
}

LoaderOutcomes LoaderOutcomes::of_sglang(const std::filesystem::path& folder) {
  LoaderOutcomes outcomes;
  outcomes.parent_word_ = "as";
  outcomes.lines_ = read_case_lines(folder / "expected");
  return outcomes;
}

std::vector<std::string> LoaderOutcomes::names() const {
  std::vector<std::string> names;
  for (const auto& [name, lines] : lines_) names.push_back(name);
  return names;
}

LoaderOutcome LoaderOutcomes::read(const std::string& name) const {
  LoaderOutcome outcome;
  if (const auto parent = first_of(lines_.at(name), parent_word_)) {
    LoaderOutcome inherited = read(*parent);
    outcome.tensors = std::move(inherited.tensors);
    outcome.parameters = std::move(inherited.parameters);
  }
  std::set<std::string> own_tensors;
  for (const auto& line : lines_.at(name)) {
    apply(outcome, line, own_tensors);
    if (parent_word_ == "as" && line.word == "config") {
      const auto equals = line.rest.find(" = ");
      outcome.config_changes[line.rest.substr(0, equals)] = line.rest.substr(equals + 3);
    }
  }
  return outcome;
}

}  // namespace mtpcheck::golden
