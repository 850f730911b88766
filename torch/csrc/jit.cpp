// TorchScript modules: load, run, look inside.
#include <ATen/ops/from_blob.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/error_report.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/normalize_ops.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdio>
#include <map>
#include <sstream>

#include "gospml_jit.h"
#include "shim.h"

namespace gs {
namespace {

using torch::jit::IValue;
using torch::jit::Module;

constexpr int kDepth = 64;

Module& module_of(uint64_t h) {
  if (!h) throw HandleError("the module was closed");
  return *reinterpret_cast<Module*>(h);
}

c10::Device device_of(int d) {
  return c10::Device(static_cast<c10::DeviceType>(d >> 8),
                     static_cast<c10::DeviceIndex>(static_cast<int8_t>(d & 0xff)));
}

// Reads values from text.
struct Reader {
  const char* at;
  const char* end;
  const uint64_t* tensors;
  size_t left;

  char next() {
    if (at == end) throw CallError("the arguments end early");
    return *at++;
  }

  IValue value(const c10::TypePtr& type, int depth) {
    if (depth > kDepth) throw CallError("an argument is nested too deeply");
    switch (next()) {
      case 't':
        if (!left) throw CallError("a tensor is missing");
        left--;
        return tensor_of(*tensors++);
      case 'n': return IValue();
      case 'b': return next() == '1';
      case 'i': return static_cast<int64_t>(number(';'));
      case 'd': {
        uint64_t bits = 0;
        for (int i = 0; i < 16; i++) bits = bits << 4 | hex(next());
        double d;
        std::memcpy(&d, &bits, sizeof d);
        return d;
      }
      case 's': {
        const int64_t n = number(':');
        if (n < 0 || n > end - at) throw CallError("a string ends early");
        std::string s(at, static_cast<size_t>(n));
        at += n;
        return s;
      }
      case '(': {
        const auto t = type ? type->cast<c10::TupleType>() : nullptr;
        std::vector<IValue> v;
        while (*at != ')')
          v.push_back(value(t && v.size() < t->elements().size() ? t->elements()[v.size()] : nullptr, depth + 1));
        next();
        return c10::ivalue::Tuple::create(std::move(v));
      }
      case '[': {
        const auto t = type ? type->cast<c10::ListType>() : nullptr;
        std::vector<IValue> v;
        while (*at != ']') v.push_back(value(t ? t->getElementType() : nullptr, depth + 1));
        next();
        c10::impl::GenericList l(t           ? t->getElementType()
                                 : v.empty() ? c10::TypePtr(c10::TensorType::get())
                                             : v.front().type());
        for (auto& x : v) l.push_back(std::move(x));
        return l;
      }
      case '{': {
        const auto t = type ? type->cast<c10::DictType>() : nullptr;
        std::vector<std::pair<IValue, IValue>> v;
        while (*at != '}') {
          IValue key = value(t ? t->getKeyType() : nullptr, depth + 1);
          v.emplace_back(std::move(key), value(t ? t->getValueType() : nullptr, depth + 1));
        }
        next();
        c10::impl::GenericDict d(t           ? t->getKeyType()
                                 : v.empty() ? c10::TypePtr(c10::StringType::get())
                                             : v.front().first.type(),
                                 t           ? t->getValueType()
                                 : v.empty() ? c10::TypePtr(c10::TensorType::get())
                                             : v.front().second.type());
        for (auto& x : v) d.insert_or_assign(std::move(x.first), std::move(x.second));
        return d;
      }
      default: throw CallError("an argument is of an unknown kind");
    }
  }

  int64_t number(char stop) {
    std::string s;
    for (char c; (c = next()) != stop;) s += c;
    return std::stoll(s);
  }

  static uint64_t hex(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }
};

// Writes values as text.
struct Writer {
  std::string text;
  std::vector<at::Tensor> tensors;

  void value(const IValue& v, int depth) {
    if (depth > kDepth) throw CallError("the result is nested too deeply");
    if (v.isTensor()) {
      text += 't';
      tensors.push_back(v.toTensor());
    } else if (v.isNone()) {
      text += 'n';
    } else if (v.isBool()) {
      text += v.toBool() ? "b1" : "b0";
    } else if (v.isInt()) {
      text += 'i' + std::to_string(v.toInt()) + ';';
    } else if (v.isDouble()) {
      const double d = v.toDouble();
      uint64_t bits;
      std::memcpy(&bits, &d, sizeof bits);
      char hex[18];
      std::snprintf(hex, sizeof hex, "d%016llx", static_cast<unsigned long long>(bits));
      text += hex;
    } else if (v.isString()) {
      const auto& s = v.toStringRef();
      text += 's' + std::to_string(s.size()) + ':' + s;
    } else if (v.isTuple()) {
      text += '(';
      for (const auto& x : v.toTupleRef().elements()) value(x, depth + 1);
      text += ')';
    } else if (v.isList()) {
      text += '[';
      for (const auto& x : v.toListRef()) value(x, depth + 1);
      text += ']';
    } else if (v.isGenericDict()) {
      text += '{';
      for (const auto& x : v.toGenericDict()) {
        value(x.key(), depth + 1);
        value(x.value(), depth + 1);
      }
      text += '}';
    } else {
      throw CallError("the result holds a " + v.type()->repr_str() + ", which has no form in Go");
    }
  }
};

// ErrorReport::what is noexcept, but it looks up where a place in the code came from, in a pickle that is damaged in a
// damaged file, and the process would end. So the words and the line of the code are taken one by one. They are
// private; an explicit instantiation may name them.
std::string text_of(const torch::jit::ErrorReport& e);

std::string text_of(const std::stringstream& words, const torch::jit::SourceRange& place) {
  const auto& source = place.source();
  if (!source || place.start() > source->size()) return words.str();
  try {
    return words.str() + ", at: " + source->get_line(source->lineno_for_offset(place.start())).str();
  } catch (const std::exception&) { return words.str(); }
}

template <auto words, auto place>
struct Report {
  friend std::string text_of(const torch::jit::ErrorReport& e) { return text_of(e.*words, e.*place); }
};
template struct Report<&torch::jit::ErrorReport::ss, &torch::jit::ErrorReport::context>;

// script_guarded is guarded for calls that compile TorchScript.
template <class F>
gs_result script_guarded(F&& f) {
  return guarded([&](gs_result& r) {
    try {
      f(r);
    } catch (const torch::jit::ErrorReport& e) { throw std::runtime_error("TorchScript: " + text_of(e)); }
  });
}

gs_result load(const char* path, int device) {
  return script_guarded([&](gs_result& r) {
    auto m = std::make_unique<Module>(torch::jit::load(path, device_of(device)));
    put(r, GS_INT, reinterpret_cast<uint64_t>(m.release()));
  });
}

gs_result free_module(uint64_t h) {
  return guarded([&](gs_result&) { delete reinterpret_cast<Module*>(h); });
}

gs_result methods(uint64_t h) {
  return script_guarded([&](gs_result& r) {
    std::string all;
    for (const auto& m : module_of(h).get_methods()) {
      std::ostringstream s;
      s << m.function().getSchema();
      all += s.str() + '\n';
    }
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(all)));
  });
}

gs_result run(uint64_t h, const char* name, const char* args, size_t n, const uint64_t* tensors, size_t ntensors,
              uint32_t flags) {
  return script_guarded([&](gs_result& r) {
    set_team(thread(), flags);
    const auto method = module_of(h).find_method(name);
    if (!method) throw CallError("the module has no method " + std::string(name));
    const auto& wanted = method->function().getSchema().arguments(); // the first is the module
    Reader in{args, args + n, tensors, ntensors};
    std::vector<IValue> stack;
    while (in.at != in.end)
      stack.push_back(in.value(stack.size() + 1 < wanted.size() ? wanted[stack.size() + 1].type() : nullptr, 0));
    Writer out;
    out.value((*method)(std::move(stack)), 0);
    put_tensors(r, std::move(out.tensors));
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(out.text)));
  });
}

gs_result state(uint64_t h) {
  return guarded([&](gs_result& r) {
    std::string names;
    std::vector<at::Tensor> tensors;
    for (const auto& p : module_of(h).named_parameters()) {
      names += 'p' + p.name + '\n';
      tensors.push_back(p.value);
    }
    for (const auto& b : module_of(h).named_buffers()) {
      names += 'b' + b.name + '\n';
      tensors.push_back(b.value);
    }
    put_tensors(r, std::move(tensors));
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(names)));
  });
}

gs_result train(uint64_t h, int on) {
  return guarded([&](gs_result&) { module_of(h).train(on != 0); });
}

gs_result to(uint64_t h, int device, int dtype) {
  return guarded([&](gs_result&) {
    auto& m = module_of(h);
    if (device >= 0) m.to(device_of(device));
    if (dtype >= 0) m.to(static_cast<at::ScalarType>(dtype));
  });
}

// A trace in work: libtorch's tracer notes what the thread calls.
struct Trace {
  Module module;
  std::shared_ptr<torch::jit::tracer::TracingState> state;
};

// child is the submodule of that name, made where it is not there.
Module child(Module& m, const std::string& name) {
  if (m.hasattr(name)) return m.attr(name).toModule();
  Module c(c10::QualifiedName("__torch__.gospml.Layer"), m._ivalue()->compilation_unit(), true);
  c.register_attribute("training", c10::BoolType::get(), false);
  m.register_module(name, c);
  return c;
}

gs_result trace_begin(const char* names, size_t n, const uint64_t* tensors, size_t ntensors, uint64_t input) {
  return guarded([&](gs_result& r) {
    namespace tracer = torch::jit::tracer;
    if (tracer::isTracing()) throw CallError("this thread is tracing already");
    auto t = std::make_unique<Trace>(
        Trace{Module(c10::QualifiedName("__torch__.gospml.Model")), std::make_shared<tracer::TracingState>()});
    t->module.register_attribute("training", c10::BoolType::get(), false);
    std::vector<std::pair<std::vector<std::string>, at::Tensor>> held;
    std::istringstream lines(std::string(names, n));
    std::string line;
    for (size_t i = 0; std::getline(lines, line); i++) {
      if (i >= ntensors) throw CallError("more names than tensors");
      std::vector<std::string> path;
      std::istringstream parts(line.substr(1));
      for (std::string p; std::getline(parts, p, '.');) path.push_back(p);
      Module at = t->module;
      for (size_t k = 0; k + 1 < path.size(); k++) at = child(at, path[k]);
      const auto x = tensor_of(tensors[i]);
      if (line[0] == 'p')
        at.register_parameter(path.back(), x, false);
      else
        at.register_buffer(path.back(), x);
      held.emplace_back(std::move(path), x);
    }
    auto& g = *t->state->graph;
    auto* self = g.addInput("self");
    self->setType(t->module._ivalue()->type());
    t->state->setValue(t->module._ivalue(), self);
    std::map<std::string, torch::jit::Value*> at{{"", self}};
    for (const auto& [path, x] : held) {
      std::string key;
      auto* v = self;
      for (const auto& p : path) {
        key += "." + p;
        auto& known = at[key];
        if (!known) known = g.insertGetAttr(v, p);
        v = known;
      }
      t->state->setValue(x, v);
    }
    const auto x = tensor_of(input);
    auto* v = g.addInput("x");
    v->setType(c10::TensorType::get());
    t->state->setValue(x, v);
    tracer::setTracingState(t->state);
    put(r, GS_INT, reinterpret_cast<uint64_t>(t.release()));
  });
}

gs_result trace_end(uint64_t h, uint64_t output) {
  return guarded([&](gs_result& r) {
    std::unique_ptr<Trace> t(reinterpret_cast<Trace*>(h));
    struct Stop {
      ~Stop() { torch::jit::tracer::setTracingState(nullptr); }
    };
    auto graph = t->state->graph;
    {
      Stop stop; // after the output is looked up, which asks for the thread's state
      if (!output) {
        put(r, GS_INT, 0);
        return;
      }
      graph->registerOutput(t->state->getOutput(tensor_of(output), 0));
    }
    torch::jit::NormalizeOps(graph);
    torch::jit::EliminateDeadCode(graph);
    for (auto* v : graph->outputs()) v->setType(c10::TensorType::get());
    const auto cu = t->module._ivalue()->compilation_unit();
    auto* f = cu->create_function(c10::QualifiedName(*t->module.type()->name(), "forward"), graph);
    t->module.type()->addMethod(f);
    put(r, GS_INT, reinterpret_cast<uint64_t>(new Module(t->module)));
  });
}

gs_result save(uint64_t h, const char* files, size_t n) {
  return guarded([&](gs_result& r) {
    Reader in{files, files + n, nullptr, 0};
    torch::jit::ExtraFilesMap extra;
    for (const auto& x : in.value(nullptr, 0).toGenericDict()) extra[x.key().toStringRef()] = x.value().toStringRef();
    std::ostringstream out;
    module_of(h).save(out, extra);
    auto* s = new std::string(std::move(out).str());
    put_tensors(r, {at::from_blob(s->data(), {static_cast<int64_t>(s->size())}, [s](void*) { delete s; }, at::kByte)});
  });
}

} // namespace
} // namespace gs

extern "C" const gs_jit* gospml_jit_api(uint32_t abi) {
  if (abi != GOSPML_JIT_ABI) return nullptr;
  static const gs_jit api = {GOSPML_JIT_ABI, sizeof(gs_jit), gs::load, gs::free_module, gs::methods,   gs::run,
                             gs::state,      gs::train,      gs::to,   gs::trace_begin, gs::trace_end, gs::save};
  return &api;
}
