// TorchScript modules: load, run, look inside.
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdio>
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

c10::Device device_of(int d) { return c10::Device(static_cast<c10::DeviceType>(d >> 8), static_cast<c10::DeviceIndex>(static_cast<int8_t>(d & 0xff))); }

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
        while (*at != ')') v.push_back(value(t && v.size() < t->elements().size() ? t->elements()[v.size()] : nullptr, depth + 1));
        next();
        return c10::ivalue::Tuple::create(std::move(v));
      }
      case '[': {
        const auto t = type ? type->cast<c10::ListType>() : nullptr;
        std::vector<IValue> v;
        while (*at != ']') v.push_back(value(t ? t->getElementType() : nullptr, depth + 1));
        next();
        c10::impl::GenericList l(t ? t->getElementType() : v.empty() ? c10::TypePtr(c10::TensorType::get()) : v.front().type());
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
        c10::impl::GenericDict d(t ? t->getKeyType() : v.empty() ? c10::TypePtr(c10::StringType::get()) : v.front().first.type(),
                                 t ? t->getValueType() : v.empty() ? c10::TypePtr(c10::TensorType::get()) : v.front().second.type());
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

gs_result load(const char* path, int device) {
  return guarded([&](gs_result& r) {
    auto m = std::make_unique<Module>(torch::jit::load(path, device_of(device)));
    put(r, GS_INT, reinterpret_cast<uint64_t>(m.release()));
  });
}

gs_result free_module(uint64_t h) {
  return guarded([&](gs_result&) { delete reinterpret_cast<Module*>(h); });
}

gs_result methods(uint64_t h) {
  return guarded([&](gs_result& r) {
    std::string all;
    for (const auto& m : module_of(h).get_methods()) {
      std::ostringstream s;
      s << m.function().getSchema();
      all += s.str() + '\n';
    }
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(all)));
  });
}

gs_result run(uint64_t h, const char* name, const char* args, size_t n, const uint64_t* tensors, size_t ntensors, uint32_t flags) {
  return guarded([&](gs_result& r) {
    set_team(thread(), flags);
    const auto method = module_of(h).find_method(name);
    if (!method) throw CallError("the module has no method " + std::string(name));
    const auto& wanted = method->function().getSchema().arguments(); // the first is the module
    Reader in{args, args + n, tensors, ntensors};
    std::vector<IValue> stack;
    while (in.at != in.end) stack.push_back(in.value(stack.size() + 1 < wanted.size() ? wanted[stack.size() + 1].type() : nullptr, 0));
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

} // namespace
} // namespace gs

extern "C" const gs_jit* gospml_jit_api(uint32_t abi) {
  if (abi != GOSPML_JIT_ABI) return nullptr;
  static const gs_jit api = {GOSPML_JIT_ABI, sizeof(gs_jit), gs::load, gs::free_module, gs::methods, gs::run, gs::state, gs::train, gs::to};
  return &api;
}
