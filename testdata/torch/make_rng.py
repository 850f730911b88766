"""Writes rng.json: numbers that PyTorch draws from its CPU generator.

    python testdata/torch/make_rng.py        (PyTorch 2.11.0)

Each stream starts from a seed and draws in order; "state" is the generator's state (base64) before draw number "at", so
that a generator restored from it must go on with the same numbers. Sizes lie on both sides of 16, where normal numbers
change their method. Made on a processor with AVX-512; AVX2 gives the same bits.
"""
import base64
import json
import os

import torch

import make_ops
from make_ops import HERE, T, array, b8, bf16, f16, f32, f64, i32, i64, u8


def draw(d, g):
    """One draw with generator g, None for the default one."""
    fn, n, dt = d["fn"], d.get("shape"), d.get("dtype", f32)
    a = d.get("args", [])
    if fn == "rand":
        return torch.rand(n, dtype=dt, generator=g)
    if fn == "randn":
        return torch.randn(n, dtype=dt, generator=g)
    if fn == "randint":
        return torch.randint(a[0], a[1], n, dtype=dt, generator=g)
    if fn == "randperm":
        return torch.randperm(a[0], dtype=dt, generator=g)
    if fn == "dropout":
        return torch.dropout(torch.ones(n, dtype=dt), a[0], True)
    if fn in ("bernoulli", "multinomial"):
        return getattr(torch, fn)(T(*n, dtype=dt, kind="unit"), *a, generator=g)
    x = make_ops.layout(torch.zeros(n, dtype=dt), d.get("n", 0))
    return getattr(x, fn)(*a, generator=g)  # in place


def stream(name, seed, draws, at):
    torch.manual_seed(seed)
    own = torch.Generator().manual_seed(seed)
    out, state = [], None
    for k, d in enumerate(draws):
        if k == at:
            state = torch.get_rng_state()
        x = draw(d, None)
        if d["fn"] != "dropout":
            assert torch.equal(x, draw(d, own)), d
        else:
            own.set_state(torch.get_rng_state())
        e = {"fn": d["fn"], "dtype": make_ops.CODES[d.get("dtype", f32)], "args": d.get("args", []), "out": array(x)}
        if "n" in d:
            e["n"] = 1
        else:
            e["out"].pop("n", None)
        if d["fn"] in ("bernoulli", "multinomial"):
            e["probs"] = array(T(*d["shape"], dtype=d.get("dtype", f32), kind="unit"))
        out.append(e)
    return {"name": name, "seed": seed, "draws": out, "at": at, "state": base64.b64encode(state.numpy().tobytes()).decode()}


def main():
    D = lambda fn, shape=None, dtype=f32, *args, **kw: dict(fn=fn, shape=shape, dtype=dtype, args=list(args), **kw)
    sizes = ([1], [5], [15], [16], [17], [4, 5], [40], [])
    streams = []
    for dt in (f32, f64):
        code = make_ops.CODES[dt]
        streams.append(stream("rand " + code, 0, [D("rand", n, dt) for n in sizes], 3))
        # An odd number of normals below 16 leaves one for the next call, which the state must hold.
        streams.append(stream("randn " + code, 1234567, [D("randn", n, dt) for n in sizes], 3))
        streams.append(stream("in place " + code, 42, [
            D("uniform_", [7], dt, -2.0, 3.0), D("normal_", [5], dt, 1.0, 0.5), D("normal_", [33], dt, -1.0, 2.0), D("normal_", [3, 7], dt, 0.0, 1.0, n=1),
            D("bernoulli_", [40], dt, 0.3), D("exponential_", [9], dt, 1.0), D("exponential_", [20], dt, 2.5), D("uniform_", [0], dt, 0.0, 1.0),
            D("geometric_", [12], dt, 0.3), D("uniform_", [4, 5], dt, 0.0, 1.0, n=1)], 2))
        streams.append(stream("layers " + code, 7, [
            D("dropout", [4, 5], dt, 0.5), D("dropout", [50], dt, 0.1), D("bernoulli", [3, 5], dt), D("multinomial", [6], dt, 3, False),
            D("multinomial", [2, 5], dt, 9, True), D("randn", [3], dt)], 1))
    streams.append(stream("half", 5, [D("rand", [17], f16), D("rand", [17], bf16), D("randn", [5], bf16), D("randn", [17], f16)], 2))
    streams.append(stream("integers", -3, [
        D("randint", [10], i64, 0, 10), D("randint", [6], i32, -5, 5), D("randint", [6], u8, 0, 256), D("randint", [5], i64, -(1 << 40), 1 << 40),
        D("randint", [4], f32, 0, 100), D("randint", [4], b8, 0, 2), D("randint", [0], i64, 0, 3), D("randint", [], i64, 0, 1000)], 4))
    streams.append(stream("permutations", 2**63 - 1, [D("randperm", None, i64, n) for n in (10, 1, 0, 100)] + [D("randperm", None, i32, 17)], 3))
    path = os.path.join(HERE, "rng.json")
    with open(path, "w") as f:
        f.write('{"about":"made by make_rng.py","torch":"%s","streams":[\n' % torch.__version__)
        f.write(",\n".join(json.dumps(s, separators=(",", ":"), allow_nan=False) for s in streams))
        f.write("\n]}\n")
    print(len(streams), "streams,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
