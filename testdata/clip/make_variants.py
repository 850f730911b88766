"""Random CLIPs of open_clip 3.3.0 and transformers 5.23.0 in many configurations and forms, with what they compute; NAME/… and NAME/expected.safetensors each.
Run:  python make_variants.py OUT [NAME …]; `python make_variants.py variants --kept` writes the ones that are kept here, in float16;
`python make_variants.py OUT --random N SEED` draws N configurations instead.
check_variants.py encodes them with the command and compares."""
import json, os, shutil, sys
import torch
from safetensors.torch import save_file
from open_clip.model import CLIP, CustomTextCLIP, resize_pos_embed
from transformers import CLIPConfig, CLIPModel, CLIPVisionConfig, CLIPVisionModelWithProjection, CLIPTextConfig, CLIPTextModelWithProjection
torch.set_grad_enabled(False)
out, only = sys.argv[1], sys.argv[2:]
kept = only == ["--kept"]
drawn = int(only[1]) if only[:1] == ["--random"] else 0
if drawn:
    only = ["nothing"]
if kept:
    only = ["hf_odd", "hf_tanh", "hf_other_size", "oc_nonsquare", "oc_mlp", "oc_no_ln_pre_avg", "oc_final_ln", "oc_bidirectional_last", "oc_pooler", "oc_pooler_avg", "oc_pooler_cascade", "oc_no_projection"]


def fill(m, seed):
    """Values far from the initial ones: gains around 1, biases and temperature not zero."""
    g = torch.Generator().manual_seed(seed)
    for k, t in m.state_dict().items():
        if not t.is_floating_point() or "attn_mask" in k:
            continue
        r = torch.randn(t.shape, generator=g)
        leaf, norm = k.split(".")[-1], any(s in k for s in ("ln_", "norm", "layrnorm", ".bn", "downsample.1"))
        if k == "logit_scale":
            t.fill_(2.0 + 0.1 * r.item() if r.numel() == 1 else 2.0)
        elif "running_var" in k:
            t.copy_(0.6 + r.abs())
        elif norm and leaf == "weight":
            t.copy_(1 + 0.2 * r)
        else:
            t.copy_(r * (0.2 if t.dim() < 2 else 1.2 / t[0].numel() ** 0.5))
    return m


def ids_of(context, vocab, eos, pad=0, n=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.full((n, context), pad)
    for i in range(n):
        l = [context, 2, context // 2 + 1, 5][i]
        x[i, :l] = torch.randint(3, vocab - 3, (l,), generator=g)
        x[i, 0], x[i, l - 1] = vocab - 2, eos
    return x


def save(name, m, write, size, ids, other=None, resized=None):
    """write(folder) writes the checkpoint."""
    d = os.path.join(out, name)
    shutil.rmtree(d, ignore_errors=True); os.makedirs(d)
    write(d)
    if hasattr(m, "config"): m = type(m).from_pretrained(d, dtype=torch.float32)
    m.eval()
    e = {}
    g = torch.Generator().manual_seed(7)
    h, w = size
    x = torch.randn(2, 3, h, w, generator=g)
    hf = hasattr(m, "config")
    if hf:
        img = (lambda x, **k: m.get_image_features(pixel_values=x, **k).pooler_output) if hasattr(m, "get_image_features") else (lambda x, **k: m(pixel_values=x, **k).image_embeds)
        txt = (lambda i: m.get_text_features(input_ids=i).pooler_output) if hasattr(m, "get_text_features") else (lambda i: m(input_ids=i).text_embeds)
    else:
        img, txt = lambda x, **k: m.encode_image(x).flatten(1), m.encode_text  # two attention pools leave a dimension of 1
    if not hf or hasattr(m, "vision_model"):
        e["pixel_values"], e["image_features"] = x, img(x)
        seen = {}
        if hf:
            e["patch_tokens"] = m.vision_model(pixel_values=x).last_hidden_state
        elif hasattr(m.visual, "transformer"):
            hook = m.visual.transformer.register_forward_hook(lambda _, __, y: seen.update(t=y)); img(x); hook.remove()
            e["patch_tokens"] = seen["t"]
        else:
            hook = m.visual.layer4.register_forward_hook(lambda _, __, y: seen.update(t=y)); img(x); hook.remove()
            e["patch_tokens"] = seen["t"]
    if not hf or hasattr(m, "text_model"):
        e["input_ids"], e["text_features"] = ids, txt(ids)
    if "image_features" in e and "text_features" in e:
        a, b = (torch.nn.functional.normalize(e[k], dim=-1) for k in ("image_features", "text_features"))
        e["logits_per_image"] = m.logit_scale.exp() * a @ b.T + (m.logit_bias if getattr(m, "logit_bias", None) is not None else 0)
    if other and hf and hasattr(m, "vision_model"):
        y = torch.randn(2, 3, *other, generator=g)
        e["other.pixel_values"], e["other.image_features"] = y, img(y, interpolate_pos_encoding=True)
    if other and resized is not None:
        y = torch.randn(2, 3, *other, generator=g)
        e["other.pixel_values"], e["other.image_features"] = y, resized.eval().encode_image(y).flatten(1)
    save_file({k: v.contiguous().clone() for k, v in e.items()}, d + "/expected.safetensors")


def hf(name, v={}, t={}, seed=1, dtype=None, shards=None, eos=None, other=None, kind="both", pad=0, strip=(), **top):
    if only and name not in only: return
    vision = dict(hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3, image_size=16, patch_size=4, projection_dim=20, hidden_act="quick_gelu")
    text = dict(vocab_size=64, hidden_size=8, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=12, projection_dim=20, hidden_act="quick_gelu", bos_token_id=62, eos_token_id=63)
    vision.update(v); text.update(t)
    if kind == "both":
        c = CLIPConfig(vision_config=vision, text_config=text, projection_dim=top.pop("projection_dim", 20), **top); m = CLIPModel(c)
    elif kind == "vision":
        m = CLIPVisionModelWithProjection(CLIPVisionConfig(**vision))
    else:
        m = CLIPTextModelWithProjection(CLIPTextConfig(**text))
    fill(m, seed)
    dtype = torch.float16 if kept else dtype
    if dtype: m.to(dtype).float()
    def write(d):
        k = m.to(dtype) if dtype else m
        k.save_pretrained(d, **({"max_shard_size": shards} if shards else {}))
        m.float()
        if strip:
            c = json.load(open(d + "/config.json"))
            for key in strip:
                o = c
                *path, last = key.split(".")
                for p in path: o = o[p]
                o.pop(last, None)
            json.dump(c, open(d + "/config.json", "w"))
    e = eos if eos is not None else text["eos_token_id"] if text["eos_token_id"] != 2 else text["vocab_size"] - 1
    save(name, m, write, (vision["image_size"],) * 2, ids_of(text["max_position_embeddings"], text["vocab_size"], e, pad), other)


def oc(name, v={}, t={}, quick=False, seed=2, form="safetensors", custom=False, dtype=None, prefix="", wrap=None, bias=None, embed=20, pad=0, other=None, key="state_dict", **top):
    if only and name not in only: return
    vision = dict(image_size=16, patch_size=4, width=12, layers=2, head_width=4)
    text = dict(context_length=12, vocab_size=64, width=8, heads=2, layers=2)
    vision.update(v); text.update(t)
    vision = {k: x for k, x in vision.items() if x is not None}
    m = (CustomTextCLIP if custom else CLIP)(embed, vision, text, quick_gelu=quick, init_logit_bias=bias, **top)
    fill(m, seed)
    dtype = torch.float16 if kept else dtype
    if dtype: m.to(dtype).float()
    def write(d):
        sd = {prefix + k: (x.to(dtype) if dtype and x.is_floating_point() else x).clone().contiguous() for k, x in m.state_dict().items()}
        if form == "safetensors":
            save_file(sd, d + "/open_clip_model.safetensors")
        else:
            torch.save({**wrap, key: sd} if wrap is not None else sd, d + "/open_clip_pytorch_model.bin")
        cfg = dict(embed_dim=embed, vision_cfg=vision, text_cfg=text)
        if quick: cfg["quick_gelu"] = True
        if custom: cfg["custom_text"] = True
        if bias is not None: cfg["init_logit_bias"] = bias
        if form != "bare":
            json.dump(dict(model_cfg=cfg, preprocess_cfg=dict(mean=[.48145466, .4578275, .40821073], std=[.26862954, .26130258, .27577711])), open(d + "/open_clip_config.json", "w"))
    size, resized = vision["image_size"], None
    if other:
        resized = (CustomTextCLIP if custom else CLIP)(embed, {**vision, "image_size": list(other)}, text, quick_gelu=quick, init_logit_bias=bias, **top)
        sd = {k: x.clone() for k, x in m.state_dict().items()}
        resize_pos_embed(sd, resized)
        resized.load_state_dict(sd)
    save(name, m, write, size if isinstance(size, (list, tuple)) else (size, size), ids_of(text["context_length"], text["vocab_size"], text["vocab_size"] - 1, pad), other, resized)


def openai(name, rn=False, script=False, v={}, t={}, seed=3, embed=32):
    """OpenAI's archive: fp16, heads by width/64, three integers beside the weights."""
    if only and name not in only: return
    vision = dict(image_size=32, patch_size=8, width=64, layers=2, head_width=64) if not rn else dict(image_size=64, width=4, layers=[1, 1, 1, 1], head_width=64)
    text = dict(context_length=12, vocab_size=64, width=64, heads=1, layers=2)
    vision.update(v); text.update(t)
    m = fill(CLIP(embed, vision, text, quick_gelu=True), seed)
    for k, x in m.state_dict().items():
        if x.is_floating_point() and k != "attn_mask": x.copy_(x.half().float())
    def write(d):
        sd = {k: x.clone() for k, x in m.state_dict().items()}
        for k, x in sd.items():
            if x.is_floating_point() and not any(s in k for s in ("ln_", ".bn", "downsample.1")) : sd[k] = x.half()
        if not script:
            sd.update(input_resolution=torch.tensor(vision["image_size"]), context_length=torch.tensor(12), vocab_size=torch.tensor(64))
            torch.save(sd, d + "/model.pt"); return
        class Holder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.n = torch.nn.Linear(1, 1)
            def forward(self, x: torch.Tensor): return x
        root = torch.nn.Module()
        def put(key, x):
            o = root
            *path, last = key.split(".")
            for p in path:
                if not hasattr(o, p): setattr(o, p, torch.nn.Module())
                o = getattr(o, p)
            if x.is_floating_point() and "running" not in key: o.register_parameter(last, torch.nn.Parameter(x, requires_grad=False))
            else: o.register_buffer(last, x)
        for k, x in sd.items(): put(k, x)
        class Top(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for k, c in root.named_children(): setattr(self, k, c)
                for k, p in root.named_parameters(recurse=False): self.register_parameter(k, p)
                for k, p in root.named_buffers(recurse=False): self.register_buffer(k, p)
                self.register_buffer("input_resolution", torch.tensor(vision["image_size"])); self.register_buffer("context_length", torch.tensor(12)); self.register_buffer("vocab_size", torch.tensor(64))
            def forward(self, x: torch.Tensor): return x
        torch.jit.script(Top()).save(d + "/model.pt")
    save(name, m, write, (vision["image_size"],) * 2, ids_of(12, 64, 63))


hf("hf_odd", dict(hidden_size=15, num_attention_heads=5, intermediate_size=23, num_hidden_layers=3), dict(hidden_size=21, num_attention_heads=7, intermediate_size=33, num_hidden_layers=1))
hf("hf_mixed_act", dict(hidden_act="gelu"), dict(hidden_act="quick_gelu"))
hf("hf_mixed_act2", dict(hidden_act="quick_gelu"), dict(hidden_act="gelu"))
hf("hf_tanh", dict(hidden_act="gelu_pytorch_tanh"), dict(hidden_act="gelu_new", eos_token_id=31))
hf("hf_eos2", t=dict(eos_token_id=2))
hf("hf_eos_middle", t=dict(eos_token_id=31))
hf("hf_eos_pad_same", pad=63)
hf("hf_eps", dict(layer_norm_eps=1e-2), dict(layer_norm_eps=1e-3))
hf("hf_projection", dict(projection_dim=512), dict(projection_dim=512), projection_dim=9)
hf("hf_projection_default", strip=("projection_dim",), projection_dim=512)
hf("hf_config_strip", strip=("vision_config.projection_dim", "text_config.projection_dim", "vision_config.hidden_act", "text_config.hidden_act", "vision_config.layer_norm_eps", "text_config.eos_token_id", "architectures"), t=dict(eos_token_id=2))
hf("hf_fp16", dtype=torch.float16); hf("hf_bf16", dtype=torch.bfloat16)
hf("hf_shards", shards="20KB"); hf("hf_fp16_shards", shards="12KB", dtype=torch.float16)
hf("hf_vision", kind="vision"); hf("hf_text", kind="text")
hf("hf_other_size", other=(20, 12)); hf("hf_patch5", dict(image_size=18, patch_size=5), other=(22, 37))
hf("hf_one_layer", dict(num_hidden_layers=1), dict(num_hidden_layers=1))
oc("oc_plain"); oc("oc_quick", quick=True)
oc("oc_heads", dict(width=36, head_width=12), dict(width=20, heads=5))
oc("oc_nonsquare", dict(image_size=[12, 20])); oc("oc_nonsquare2", dict(image_size=[28, 12]))
oc("oc_patch_remainder", dict(image_size=19))
oc("oc_mlp", dict(mlp_ratio=3.3), dict(mlp_ratio=2.7)); oc("oc_eps", dict(norm_kwargs=dict(eps=1e-3)), dict(norm_kwargs=dict(eps=1e-2)))
oc("oc_no_ln_pre", dict(no_ln_pre=True)); oc("oc_avg", dict(pool_type="avg")); oc("oc_final_ln", dict(pool_type="avg", final_ln_after_pool=True)); oc("oc_final_ln_tok", dict(final_ln_after_pool=True))
oc("oc_no_ln_pre_avg", dict(no_ln_pre=True, pool_type="avg"))
oc("oc_sincos", dict(pos_embed_type="sin_cos_2d")); oc("oc_patch_dropout", dict(patch_dropout=0.5))
oc("oc_tanh", dict(act_kwargs=dict(approximate="tanh")), dict(act_kwargs=dict(approximate="tanh")))
oc("oc_custom", custom=True); oc("oc_custom_bias", custom=True, bias=-3.0); oc("oc_bias", bias=-10.0)
oc("oc_custom_bin", custom=True, form="bin", prefix="module.", wrap=dict(epoch=3, name="x", optimizer={"state": {}, "param_groups": []}))
oc("oc_eos", t=dict(pool_type="eos", eos_id=63)); oc("oc_last", t=dict(pool_type="last")); oc("oc_first", t=dict(pool_type="first"))
oc("oc_bidirectional", custom=True, t=dict(no_causal_mask=True)); oc("oc_bidirectional_last", custom=True, t=dict(no_causal_mask=True, pool_type="last"))
oc("oc_module", prefix="module.", form="bin", wrap=dict(epoch=1)); oc("oc_orig_mod", prefix="_orig_mod."); oc("oc_module_orig", prefix="module._orig_mod.", form="bin", wrap={})
oc("oc_orig_module", prefix="_orig_mod.module.", form="bin", wrap=dict(epoch=1, scaler={"scale": 1.0}))
oc("oc_fp16", dtype=torch.float16); oc("oc_bf16", dtype=torch.bfloat16, form="bin"); oc("oc_nonscalar", nonscalar_logit_scale=True)
oc("oc_rn", dict(layers=[2, 1, 1, 2], width=6, image_size=64, patch_size=None, head_width=32)); oc("oc_rn_quick", dict(layers=[1, 2, 1, 1], width=8, image_size=96, patch_size=None, head_width=64), quick=True)
oc("oc_rn_custom", dict(layers=[1, 1, 1, 1], width=4, image_size=64, patch_size=None, head_width=16), custom=True, quick=True, form="bin", prefix="module.", wrap=dict(epoch=1))
oc("oc_pooler", dict(attentional_pool=True, attn_pooler_queries=3, attn_pooler_heads=2, ls_init_value=0.1), dict(ls_init_value=0.2, proj_bias=True), custom=True, bias=-2.0, nonscalar_logit_scale=True)
oc("oc_pooler_avg", dict(width=20, attentional_pool=True, attn_pooler_queries=4, attn_pooler_heads=5, pool_type="avg", norm_kwargs=dict(eps=1e-3))); oc("oc_pooler_cascade", dict(width=20, attentional_pool="cascade", attn_pooler_queries=3, attn_pooler_heads=2))
oc("oc_no_projection", t=dict(width=20, heads=2, proj_type="none"))
openai("openai_vit_script", script=True); openai("openai_vit_state"); openai("openai_vit_wide", v=dict(width=128), t=dict(width=192, heads=3))
openai("openai_rn_script", rn=True, script=True); openai("openai_rn_state", rn=True, v=dict(width=6, layers=[1, 2, 2, 1], image_size=96))


def draw(i, r):
    """One configuration of the open_clip or transformers family with drawn settings."""
    pick, chance = r.choice, lambda p: r.random() < p
    name, seed, dtype = f"r{i:03d}", r.randrange(10**6), r.choice([None, None, None, torch.float16, torch.bfloat16])
    context, vocab = r.randint(6, 30), r.randint(40, 120)
    embed = r.randint(5, 40)
    if chance(0.4):
        heads, theads, patch = pick([1, 2, 3, 5]), pick([1, 2, 4, 7]), pick([2, 3, 4, 5, 7, 8])
        image = patch * r.randint(2, 5) + r.randint(0, patch - 1)
        acts = ["quick_gelu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python"]
        hf(name, dict(hidden_size=heads * r.randint(3, 9), num_attention_heads=heads, intermediate_size=r.randint(6, 50), num_hidden_layers=r.randint(1, 4), image_size=image, patch_size=patch, hidden_act=pick(acts),
                      layer_norm_eps=pick([1e-5, 1e-6, 1e-3]), projection_dim=embed),
           dict(hidden_size=theads * r.randint(2, 9), num_attention_heads=theads, intermediate_size=r.randint(6, 50), num_hidden_layers=r.randint(1, 4), hidden_act=pick(acts), vocab_size=vocab,
                max_position_embeddings=context, eos_token_id=pick([2, vocab - 1, vocab // 2]), projection_dim=embed, layer_norm_eps=pick([1e-5, 1e-6, 1e-3]), bos_token_id=0),
           seed=seed, dtype=dtype, shards=pick([None, None, "10KB"]), pad=pick([0, 1, vocab - 1]), projection_dim=embed, kind=pick(["both", "both", "both", "vision", "text"]),
           other=None if chance(0.5) else (patch * r.randint(2, 7), patch * r.randint(2, 7)))
        return
    quick, custom, bias = chance(0.4), chance(0.4), pick([None, None, -10.0, 0.5])
    form = pick(["safetensors", "bin", "bin"])
    wrap = pick([None, {}, dict(epoch=3, name="x", optimizer={"state": {}, "param_groups": []}), dict(step=9, scaler={"scale": 1.0})]) if form == "bin" else None
    prefix = pick(["", "", "module.", "_orig_mod.", "module._orig_mod.", "model.", "model.module."])
    hw, theads = pick([4, 6, 8]), pick([1, 2, 3])
    text = dict(context_length=context, vocab_size=vocab, width=theads * pick([4, 6, 10]), heads=theads, layers=r.randint(1, 4), mlp_ratio=pick([4.0, 1.5, 2.7]))
    text.update(pick([{}, {}, dict(pool_type="eos", eos_id=vocab - 1), dict(pool_type="last"), dict(pool_type="first")]))
    act = dict(act_kwargs=dict(approximate="tanh")) if not quick and chance(0.3) else {}
    if custom:
        text.update(pick([{}, dict(no_causal_mask=True), dict(embed_cls=True), dict(embed_cls=True, pad_id=1), dict(pad_id=3)]))
    if chance(0.3): text.update(proj_bias=True)
    if chance(0.3): text.update(ls_init_value=0.3)
    if chance(0.3): text.update(norm_kwargs=dict(eps=pick([1e-6, 1e-3])))
    other = None
    if chance(0.25):
        side = 32 * r.randint(2, 3)
        vision = dict(layers=[r.randint(1, 2) for _ in range(4)], width=pick([4, 6, 8]), image_size=side, patch_size=None, head_width=pick([8, 16, 32, 64]))
    else:
        patch = pick([3, 4, 5, 8])
        image = [patch * r.randint(2, 5) + r.randint(0, patch - 1) for _ in range(2)]
        vision = dict(image_size=pick([image, image[0]]), patch_size=patch, head_width=hw, width=hw * r.randint(1, 4), layers=r.randint(1, 4), mlp_ratio=pick([4.0, 1.7, 3.3]), **act)
        if chance(0.3): vision.update(ls_init_value=1e-5)
        if chance(0.3): vision.update(no_ln_pre=True)
        if chance(0.4): vision.update(pool_type="avg")
        if chance(0.3): vision.update(final_ln_after_pool=True)
        if chance(0.3): vision.update(norm_kwargs=dict(eps=pick([1e-6, 1e-3])))
        if chance(0.3):
            queries = pick([1, 3, 9])
            vision.update(attentional_pool=pick([True, True, "parallel", "cascade"]), attn_pooler_queries=queries, attn_pooler_heads=pick([1, 2]))
            embed = vision["width"] if vision["attentional_pool"] is not True else embed + embed % 2
            if queries == 1 and vision.get("pool_type") == "avg": vision["pool_type"] = "tok"  # a mean over nothing
        if chance(0.1) and not isinstance(vision["image_size"], list) and vision["width"] % 4 == 0: vision.update(pos_embed_type="sin_cos_2d")
        if chance(0.5) and not vision.get("pos_embed_type") and not isinstance(vision["image_size"], list): other = (patch * r.randint(2, 7), patch * r.randint(2, 7))
    oc(name, vision, {**text, **act}, quick=quick, seed=seed, form=form, custom=custom, dtype=dtype, prefix=prefix, wrap=wrap, bias=bias, embed=embed, pad=pick([0, 1, 3]), other=other,
       key=pick(["state_dict", "model", "model_state_dict"]) if wrap is not None else "state_dict", nonscalar_logit_scale=chance(0.2))


if drawn:
    import random
    only, r = [], random.Random(int(sys.argv[4]))
    for i in range(drawn):
        draw(i, r)
