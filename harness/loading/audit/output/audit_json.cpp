#include "harness/loading/audit/output/audit_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "harness/loading/audit/words/pieces.h"
#include "harness/loading/carry_out/carry_out.h"

namespace mtpcheck {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson load_json(const LoadPlan& plan, const Load& load) {
  OrderedJson json = {{"param", plan.parameters[load.parameter].name}};
  if (load.shard == Shard::first || load.shard == Shard::second) {
    json["shard"] = load.shard == Shard::first ? 0 : 1;
  } else if (load.shard != Shard::none) {
    json["shard"] = to_string(load.shard);
  }
  if (load.expert >= 0) json["expert"] = load.expert;
  json["written"] = load.written;
  return json;
}

OrderedJson tensor_json(const LoadPlan& plan, const TensorView& tensor, const PlannedTensor& planned) {
  OrderedJson json = {{"name", tensor.name},
                      {"dtype", torch_name(tensor.dtype)},
                      {"shape", tensor.shape},
                      {"file", tensor.file},
                      {"outcome", to_string(planned.outcome)}};
  if (!planned.engine_name.empty()) json["mtp_name"] = planned.engine_name;
  json["loads"] = OrderedJson::array();
  for (std::uint32_t i = 0; i < planned.load_count; ++i) {
    json["loads"].push_back(load_json(plan, plan.loads[planned.first_load + i]));
  }
  return json;
}

/// In read order, those that no engine reads at the end.
OrderedJson tensors_json(const LoadPlan& plan, const HeaderSet& headers) {
  OrderedJson json = OrderedJson::array();
  std::vector<bool> told(headers.tensors.size());
  const auto add = [&](std::uint32_t index) {
    told[index] = true;
    json.push_back(tensor_json(plan, headers.tensors[index], plan.tensors[index]));
  };
  for (const auto index : plan.read_order) add(index);
  for (std::uint32_t index = 0; index < told.size(); ++index) {
    if (!told[index]) add(index);
  }
  return json;
}

OrderedJson interval_json(const Interval& interval) { return OrderedJson::array({interval.begin, interval.end}); }

OrderedJson slice_json(const LoadPlan& plan, const HeaderSet& headers, const Parameter& parameter,
                       const VisibleSlice& slice) {
  const Write& write = plan.writes[slice.write];
  const TensorView& tensor = headers.tensors[write.tensor];
  OrderedJson json = {{"tensor", tensor.name}, {"rows", interval_json(slice.box.rows)}};
  if (!parameter.experts.empty()) json["experts"] = interval_json(slice.box.experts);
  if (parameter.extents.cols > 1) json["columns"] = interval_json(slice.box.cols);
  if (write.conversion.kind == Conversion::Kind::fill) {
    json["filled_with"] = fmt::format("{}", write.conversion.constant);
    return json;
  }
  const ByteRange range = bytes_read(write, tensor);
  json["file"] = tensor.file;
  json["offset"] = range.offset;
  json["length"] = range.length;
  json["contiguous"] = range.contiguous;
  return json;
}

OrderedJson parameter_json(const Audit& audit, const HeaderSet& headers, std::size_t index) {
  const Parameter& parameter = audit.plan->parameters[index];
  const Coverage& coverage = audit.coverage[index];
  const double share =
      coverage.elements == 0 ? 1.0 : static_cast<double>(coverage.written) / static_cast<double>(coverage.elements);
  OrderedJson json = {{"name", parameter.name},
                      {"dtype", torch_name(parameter.dtype)},
                      {"shape", parameter.shape},
                      {"status", to_string(audit.statuses[index])},
                      {"initial", to_string(parameter.initial)},
                      {"elements", coverage.elements},
                      {"unwritten", coverage.elements - coverage.written},
                      {"coverage", share}};
  json["missing"] = OrderedJson::array();
  for (const Box& box : coverage.missing) json["missing"].push_back(in_words(parameter, box));
  json["slices"] = OrderedJson::array();
  for (const VisibleSlice& slice : coverage.visible) {
    json["slices"].push_back(slice_json(*audit.plan, headers, parameter, slice));
  }
  return json;
}

std::string_view words_of(EngineException::Where where) {
  constexpr std::array<std::string_view, 3> kWords{"load_weights", "weight_loader", "strict_check"};
  return kWords[static_cast<std::size_t>(where)];
}

OrderedJson exception_json(const LoadPlan& plan, const HeaderSet& headers) {
  if (!plan.exception) return nullptr;
  const bool strict = plan.exception->where == EngineException::Where::strict_check;
  OrderedJson json = {
      {"type", plan.exception->type}, {"message", plan.exception->message}, {"where", words_of(plan.exception->where)}};
  if (!strict) json["tensor"] = headers.tensors[plan.exception->tensor].name;
  return json;
}

void add_messages(OrderedJson& json, const LoadPlan& plan, const HeaderSet& headers) {
  json["loaded"] = plan.loaded ? OrderedJson(*plan.loaded) : OrderedJson(nullptr);
  json["unassigned"] = OrderedJson::array();
  for (const auto index : plan.unassigned) json["unassigned"].push_back(plan.parameters[index].name);
  json["warnings"] = OrderedJson::array();
  json["construction_warnings"] = OrderedJson::array();
  for (const auto& warning : plan.warnings) {
    const bool built = warning.kind == EngineWarning::Kind::unknown_algorithm;
    json[built ? "construction_warnings" : "warnings"].push_back(warning.text);
  }
  json["exception"] = exception_json(plan, headers);
}

OrderedJson refusal_json(const LoadPlan& plan) {
  if (!plan.refusal) return nullptr;
  return {{"type", plan.refusal->type}, {"message", plan.refusal->message}, {"config_key", plan.refusal->config_key}};
}

}  // namespace

nlohmann::ordered_json to_json(const Finding& finding) {
  return {{"id", finding.id},
          {"severity", to_string(finding.severity)},
          {"caused_by", to_string(finding.cause)},
          {"subject", finding.subject},
          {"found", finding.found},
          {"expected", finding.expected},
          {"engine_says", finding.engine_says}};
}

std::vector<std::string> digests_of(const Audit& audit, const Checkpoint& checkpoint) {
  std::vector<std::string> digests;
  if (!audit.plan || checkpoint.headers_only) return digests;
  for (std::uint32_t i = 0; i < audit.plan->parameters.size(); ++i) {
    const bool random = audit.plan->parameters[i].initial == Initial::random && !audit.coverage[i].complete();
    digests.push_back(random ? std::string{}
                             : sha256(carry_out(*audit.plan, i, checkpoint.headers.tensors).tensor.bytes));
  }
  return digests;
}

nlohmann::ordered_json to_json(const Audit& audit, const Checkpoint& checkpoint, const AuditRequest& request,
                               const std::vector<std::string>& digests) {
  OrderedJson json = {{"checkpoint", checkpoint.path.string()}, {"headers_only", checkpoint.headers_only}};
  json["loader"] = nullptr;
  if (audit.plan) json["loader"] = audit.plan->engine + " " + audit.plan->version;
  json["tp"] = {{"rank", request.topology.tp_rank},
                {"size", request.topology.tp_size},
                {"expert_parallel", request.topology.expert_parallel}};
  json["cache_dtype"] = request.kv_cache_dtype;
  if (audit.plan) {
    json["construction_error"] = refusal_json(*audit.plan);
    json["tensors"] = tensors_json(*audit.plan, checkpoint.headers);
    add_messages(json, *audit.plan, checkpoint.headers);
    json["params"] = OrderedJson::array();
    for (std::size_t i = 0; i < audit.plan->parameters.size(); ++i) {
      json["params"].push_back(parameter_json(audit, checkpoint.headers, i));
      if (i < digests.size() && !digests[i].empty()) json["params"].back()["sha256"] = digests[i];
    }
  }
  json["findings"] = OrderedJson::array();
  for (const auto& finding : audit.findings) json["findings"].push_back(to_json(finding));
  return json;
}

}  // namespace mtpcheck
