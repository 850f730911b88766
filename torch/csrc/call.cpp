// Operators: one generic call through the dispatcher with a boxed stack.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/irange.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "shim.h"
#include "unboxed.h"

namespace gs {
namespace {

// What an argument's schema type asks for, decided once per operator.
enum class Want : uint8_t {
  Any,
  Tensor,
  Int,
  DType,
  Float,
  Bool,
  Scalar,
  Ints,
  Floats,
  Bools,
  Tensors,
  OptTensors,
  Str,
  Device,
  Generator,
  Scalars,
  OptScalars,
};

struct Arg {
  Want want = Want::Any;
  bool optional = false;
};

struct Op {
  c10::OperatorHandle handle;
  std::vector<Arg> args;
  std::vector<bool> drop; // per return: aliases a written argument
  std::vector<const c10::IValue*> defaults; // per argument, nullptr where it must be given
  std::unique_ptr<Unboxed> unboxed;         // for frequent signatures
};

Want want_of(const c10::Type& t) {
  switch (t.kind()) {
    case c10::TypeKind::TensorType: return Want::Tensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType: return Want::Int;
    case c10::TypeKind::ScalarTypeType: return Want::DType;
    case c10::TypeKind::FloatType: return Want::Float;
    case c10::TypeKind::BoolType: return Want::Bool;
    case c10::TypeKind::NumberType: return Want::Scalar;
    case c10::TypeKind::StringType: return Want::Str;
    case c10::TypeKind::DeviceObjType: return Want::Device;
    case c10::TypeKind::GeneratorType: return Want::Generator;
    case c10::TypeKind::ListType: {
      const auto& e = *t.castRaw<c10::ListType>()->getElementType();
      switch (e.kind()) {
        case c10::TypeKind::IntType:
        case c10::TypeKind::SymIntType: return Want::Ints;
        case c10::TypeKind::FloatType: return Want::Floats;
        case c10::TypeKind::BoolType: return Want::Bools;
        case c10::TypeKind::TensorType: return Want::Tensors;
        case c10::TypeKind::OptionalType:
          return e.castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::NumberType
                     ? Want::OptScalars
                     : Want::OptTensors;
        case c10::TypeKind::NumberType: return Want::Scalars;
        default: return Want::Any;
      }
    }
    default: return Want::Any;
  }
}

// The letter of a type in unboxed.h.
char letter_of(const c10::Type& t, bool optional) {
  switch (t.kind()) {
    case c10::TypeKind::TensorType: return optional ? 'O' : 'T';
    case c10::TypeKind::NumberType: return optional ? '?' : 'S';
    case c10::TypeKind::IntType: return optional ? '?' : 'I';
    case c10::TypeKind::SymIntType: return optional ? '?' : 'Y';
    case c10::TypeKind::BoolType: return optional ? 'b' : 'B';
    case c10::TypeKind::ScalarTypeType: return optional ? 'd' : '?';
    case c10::TypeKind::LayoutType: return optional ? 'y' : '?';
    case c10::TypeKind::DeviceObjType: return optional ? 'v' : '?';
    case c10::TypeKind::MemoryFormatType: return optional ? 'f' : '?';
    case c10::TypeKind::ListType:
      switch (t.castRaw<c10::ListType>()->getElementType()->kind()) {
        case c10::TypeKind::IntType: return optional ? 'P' : 'l';
        case c10::TypeKind::SymIntType: return optional ? '?' : 'L';
        default: return '?';
      }
    default: return '?';
  }
}

std::mutex ops_mutex;
std::unordered_map<std::string, std::unique_ptr<Op>> ops; // never shrinks: handles stay valid

const char* tag_name(uint8_t tag) {
  static const char* names[] = {"None",    "Tensor", "int",      "float",  "bool",      "str",    "int[]",
                                "float[]", "bool[]", "Tensor[]", "Device", "Generator", "default"};
  tag &= 0x7f;
  return tag < sizeof names / sizeof *names ? names[tag] : "?";
}

// "argument 2 (int[]? dim)", in the words of the schema.
std::string argument(const Op& op, size_t i) {
  const auto& a = op.handle.schema().arguments()[i];
  std::string type = a.real_type()->str();
  for (size_t at; (at = type.find("SymInt")) != std::string::npos;) type.replace(at, 6, "int");
  return "argument " + std::to_string(i + 1) + " (" + type + " " + a.name() + ")";
}

[[noreturn]] void mismatch(const Op& op, size_t i, uint8_t tag) {
  throw CallError(argument(op, i) + " cannot be of type " + tag_name(tag));
}

const c10::IValue& default_of(const Op& op, size_t i) {
  if (!op.defaults[i]) throw CallError(argument(op, i) + " is missing");
  return *op.defaults[i];
}

struct List {
  const uint64_t* p;
  size_t n;
};

List list_of(const gs_frame* f, const uint64_t* far, size_t i) {
  const uint64_t off = f->w[i] & 0xffffffffu, n = f->w[i] >> 32;
  return {((f->tag[i] & GS_FAR) ? far : f->data) + off, n};
}

double as_double(uint64_t w) {
  double d;
  memcpy(&d, &w, sizeof d);
  return d;
}

c10::IValue value_of(const Op& op, size_t i, const gs_frame* f, const uint64_t* far) {
  const uint8_t tag = f->tag[i] & 0x7f;
  const uint64_t w = f->w[i];
  const Arg& a = op.args[i];
  switch (tag) {
    case GS_NONE:
      if (!a.optional && a.want != Want::Any) {
        if (a.want == Want::Tensor) throw HandleError(argument(op, i) + " is a nil tensor");
        mismatch(op, i, tag);
      }
      return c10::IValue();
    case GS_TENSOR:
      if (a.want != Want::Tensor && a.want != Want::Any) mismatch(op, i, tag);
      return c10::IValue(tensor_of(w));
    case GS_INT:
      switch (a.want) {
        case Want::Int:
        case Want::Scalar:
        case Want::Any: return c10::IValue(static_cast<int64_t>(w));
        case Want::DType: // libtorch looks it up in a table without looking whether it is there
          if (w >= static_cast<uint64_t>(c10::ScalarType::NumOptions))
            throw CallError(argument(op, i) + " is no element type: " + std::to_string(static_cast<int64_t>(w)));
          return c10::IValue(static_cast<int64_t>(w));
        case Want::Float: return c10::IValue(static_cast<double>(static_cast<int64_t>(w)));
        case Want::Ints: return c10::IValue(std::vector<int64_t>{static_cast<int64_t>(w)});
        default: mismatch(op, i, tag);
      }
    case GS_DOUBLE:
      switch (a.want) {
        case Want::Float:
        case Want::Scalar:
        case Want::Any: return c10::IValue(as_double(w));
        default: mismatch(op, i, tag);
      }
    case GS_BOOL:
      switch (a.want) {
        case Want::Bool:
        case Want::Scalar:
        case Want::Any: return c10::IValue(w != 0);
        default: mismatch(op, i, tag);
      }
    case GS_STR: {
      const List l = list_of(f, far, i);
      if (a.want != Want::Str && a.want != Want::Any) mismatch(op, i, tag);
      return c10::IValue(std::string(reinterpret_cast<const char*>(l.p), l.n));
    }
    case GS_INTS: {
      const List l = list_of(f, far, i);
      if (a.want != Want::Ints && a.want != Want::Any) mismatch(op, i, tag);
      return c10::IValue(c10::IntArrayRef(reinterpret_cast<const int64_t*>(l.p), l.n));
    }
    case GS_DOUBLES: {
      const List l = list_of(f, far, i);
      if (a.want == Want::Scalars) {
        c10::List<at::Scalar> v;
        for (size_t k = 0; k < l.n; k++) v.push_back(at::Scalar(as_double(l.p[k])));
        return c10::IValue(std::move(v));
      }
      if (a.want == Want::OptScalars) {
        c10::List<std::optional<at::Scalar>> v;
        for (size_t k = 0; k < l.n; k++) v.push_back(at::Scalar(as_double(l.p[k])));
        return c10::IValue(std::move(v));
      }
      if (a.want != Want::Floats && a.want != Want::Any) mismatch(op, i, tag);
      std::vector<double> v(l.n);
      if (l.n) memcpy(v.data(), l.p, l.n * sizeof(double));
      return c10::IValue(std::move(v));
    }
    case GS_BOOLS: {
      const List l = list_of(f, far, i);
      if (a.want != Want::Bools && a.want != Want::Any) mismatch(op, i, tag);
      c10::List<bool> v;
      v.reserve(l.n);
      for (size_t k = 0; k < l.n; k++) v.push_back(l.p[k] != 0);
      return c10::IValue(std::move(v));
    }
    case GS_TENSORS: {
      const List l = list_of(f, far, i);
      if (a.want == Want::OptTensors) {
        c10::List<std::optional<at::Tensor>> v;
        v.reserve(l.n);
        for (size_t k = 0; k < l.n; k++)
          v.push_back(l.p[k] ? std::optional<at::Tensor>(tensor_of(l.p[k])) : std::nullopt);
        return c10::IValue(std::move(v));
      }
      if (a.want != Want::Tensors && a.want != Want::Any) mismatch(op, i, tag);
      c10::List<at::Tensor> v;
      v.reserve(l.n);
      for (size_t k = 0; k < l.n; k++) {
        if (!l.p[k]) throw HandleError(argument(op, i) + ": element " + std::to_string(k) + " is a nil tensor");
        v.push_back(tensor_of(l.p[k]));
      }
      return c10::IValue(std::move(v));
    }
    case GS_DEVICE: {
      if (a.want != Want::Device && a.want != Want::Any) mismatch(op, i, tag);
      const int index = static_cast<int>(w & 0xff);
      return c10::IValue(
          c10::Device(static_cast<c10::DeviceType>(w >> 8), static_cast<c10::DeviceIndex>(index == 255 ? -1 : index)));
    }
    case GS_GENERATOR:
      if (a.want != Want::Generator && a.want != Want::Any) mismatch(op, i, tag);
      return c10::IValue(generator_of(w));
    default: break;
  }
  return default_of(op, i);
}

void take(gs_result& r, c10::IValue&& v) {
  if (v.isTensor()) {
    put_tensor(r, std::move(v).toTensor());
  } else if (v.isTensorList()) {
    put_tensors(r, v.toTensorVector());
  } else if (v.isInt()) {
    put(r, GS_INT, static_cast<uint64_t>(v.toInt()));
  } else if (v.isDouble()) {
    const double d = v.toDouble();
    uint64_t w;
    memcpy(&w, &d, sizeof w);
    put(r, GS_DOUBLE, w);
  } else if (v.isBool()) {
    put(r, GS_BOOL, v.toBool());
  } else if (v.isNone()) {
    put(r, GS_NONE, 0);
  } else if (v.isString()) {
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(v.toStringRef())));
  } else if (v.isSymInt()) {
    put(r, GS_INT, static_cast<uint64_t>(v.toSymInt().expect_int()));
  } else {
    throw CallError("a result of type " + v.tagKind() + " cannot cross to Go");
  }
}

// The thread's stack, or one of its own where a call runs inside another: a vector a call would cost an allocation.
struct StackLease {
  torch::jit::Stack own;
  Thread* lender;
  explicit StackLease(Thread& t) : lender(t.stack_busy ? nullptr : &t) {
    if (lender) lender->stack_busy = true;
  }
  torch::jit::Stack& get() { return lender ? lender->stack : own; }
  ~StackLease() {
    if (lender) {
      lender->stack.clear();
      lender->stack_busy = false;
    }
  }
};

// Runs the operator and collects its results in r.
void run(const Op& op, const gs_frame* f, const uint64_t* far, gs_result& r) {
  const size_t n = op.args.size();
  if (f->n > n) throw CallError("takes " + std::to_string(n) + " arguments, got " + std::to_string(f->n));
  Thread& t = thread();
  set_team(t, f->flags);
  struct Calling {
    int& n;
    explicit Calling(int& n) : n(n) { n++; }
    ~Calling() { n--; }
  } calling(t.calling);
  if (op.unboxed && op.unboxed->call(f, far, op.defaults.data(), r)) return;
  StackLease lease(t);
  auto& s = lease.get();
  for (size_t i = 0; i < f->n; i++) s.push_back(value_of(op, i, f, far));
  for (size_t i = f->n; i < n; i++) s.push_back(default_of(op, i));
  op.handle.callBoxed(s);
  const size_t outs = op.drop.size();
  if (s.size() < outs) throw CallError("the operator returned fewer values than its schema says");
  for (size_t i = 0; i < outs; i++)
    if (!op.drop[i]) take(r, std::move(s[s.size() - outs + i]));
}

} // namespace

gs_result op(const char* name, const char* overload) {
  return guarded([&](gs_result& r) {
    const std::string key = std::string(name) + "." + overload;
    std::lock_guard<std::mutex> lock(ops_mutex);
    auto it = ops.find(key);
    if (it == ops.end()) {
      auto h = c10::Dispatcher::singleton().findSchema({name, overload});
      if (!h) throw CallError("no operator " + std::string(name) + (*overload ? "." + std::string(overload) : ""));
      auto o = std::make_unique<Op>(Op{*h, {}, {}, {}, {}});
      std::string letters;
      for (const auto& a : h->schema().arguments()) {
        Arg x;
        const c10::Type* t = a.real_type().get();
        if (t->kind() == c10::TypeKind::OptionalType) {
          x.optional = true;
          t = t->castRaw<c10::OptionalType>()->getElementType().get();
        }
        x.want = want_of(*t);
        o->args.push_back(x);
        o->defaults.push_back(a.default_value() ? &*a.default_value() : nullptr);
        letters += a.alias_info() && a.alias_info()->isWrite() ? 'M' : letter_of(*t, x.optional);
      }
      const auto& returns = h->schema().returns();
      for (const auto& ret : returns) o->drop.push_back(ret.alias_info() && ret.alias_info()->isWrite());
      if (returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::TensorType) {
        try {
          o->unboxed = find_unboxed(*h, letters, o->drop[0]);
        } catch (const c10::Error&) { // the kernels' C++ types are not those that the schema suggests
        }
      }
      it = ops.emplace(key, std::move(o)).first;
    }
    put(r, GS_INT, reinterpret_cast<uint64_t>(it->second.get()));
  });
}

gs_error call(uint64_t id, gs_frame* f, const uint64_t* far) {
  const gs_result r = guarded([&](gs_result& r) { run(*reinterpret_cast<const Op*>(id), f, far, r); });
  if (r.kind == GS_OK) {
    f->n = static_cast<uint32_t>(r.n);
    f->bytes = r.bytes;
    f->scope = r.scope;
    f->slot = r.slot;
    for (int i = 0; i < r.n; i++) {
      f->tag[i] = r.tag[i];
      f->w[i] = r.w[i];
    }
  }
  return {r.kind, r.msg};
}

gs_result schema(uint64_t id) {
  return guarded([&](gs_result& r) {
    const Op& op = *reinterpret_cast<const Op*>(id);
    std::string s = c10::toString(op.handle.schema());
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(s)));
  });
}

gs_result overloads(const char* name) {
  return guarded([&](gs_result& r) {
    std::string s;
    for (const auto& n : c10::Dispatcher::singleton().getAllOpNames())
      if (n.name == name) s += n.overload_name + "\n";
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(s)));
  });
}

} // namespace gs
